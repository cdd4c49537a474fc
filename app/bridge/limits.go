// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// A Limit is room that something was refused for.
type Limit struct {
	Name    string    // as metrics have it
	Note    string    // what is full, what becomes of the rest, and what to do
	Refused time.Time // last
}

// limitNotes are the limits that no table shows as full: it is known only of what they refuse.
var limitNotes = []Limit{
	{Name: "address_handles", Note: "address handles: there is none for messages to further peers, which are dropped (ah_full)"},
	{Name: "messages_waiting", Note: "messages that wait for an address handle: further ones are dropped (ah_pending); is the subnet slow, or a peer not there?"},
	{Name: "management_ring", Note: "the rings to management, or what waits for proxy QPs: further packets of those who send most are dropped (punt_full)"},
	{Name: "alias_guids", Note: "alias GUIDs: further hosts are seen under the bridge's own GID; the subnet manager sets the port's number of GUIDs"},
	{Name: "range_groups", Note: "groups of a [[range]]: further ones are not learned (range_full, or host_full of one host); raise its most"},
}

const (
	limitsEvery = time.Second
	// refusedFor is how long a limit counts as reached after it has refused something.
	refusedFor = time.Minute
)

// limits notice by counters what limits refuse.
type limits struct {
	log *slog.Logger

	mu      sync.Mutex
	counts  map[string]uint64 // as seen last
	refused map[string]time.Time
}

func newLimits(log *slog.Logger) *limits {
	return &limits{log: log, counts: map[string]uint64{}, refused: map[string]time.Time{}}
}

// notice takes the counters. It logs a limit that is reached, and has not been for a while.
func (l *limits) notice(counts map[string]uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range limitNotes {
		n, before := counts[x.Name], l.counts[x.Name]
		l.counts[x.Name] = n
		if n <= before {
			continue
		}
		if now.Sub(l.refused[x.Name]) >= refusedFor {
			l.log.Warn("limit_reached", "limit", x.Name, "refused", n-before, "note", x.Note)
		}
		l.refused[x.Name] = now
	}
}

// reached returns the limits that have refused something lately.
func (l *limits) reached(now time.Time) (out []Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range limitNotes {
		if x.Refused = l.refused[x.Name]; now.Sub(x.Refused) < refusedFor {
			out = append(out, x)
		}
	}
	return out
}

// follow notices until ctx ends.
func (l *limits) follow(ctx context.Context, counts func() map[string]uint64) {
	tick := time.NewTicker(limitsEvery)
	defer tick.Stop()
	for {
		l.notice(counts(), time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// LimitNames are the names of all limits of Limits.
func LimitNames() (names []string) {
	for _, x := range limitNotes {
		names = append(names, x.Name)
	}
	return names
}

// Limits returns the limits that have refused something in the last minute, besides those that Memory shows.
func (b *Bridge) Limits() []Limit { return b.limits.reached(time.Now()) }

// refusals returns how much each limit has refused.
func (b *Bridge) refusals() map[string]uint64 {
	s := b.Status()
	return refusalsOf(b.Counters(), b.Lost()[lcore.RoCEToIB], &s)
}

func refusalsOf(c lcore.Counters, lost map[string]uint64, s *manage.Status) map[string]uint64 {
	n := map[string]uint64{
		"address_handles": lost["ah_full"], "messages_waiting": lost["ah_pending"], "management_ring": c.Punt.Full,
		"alias_guids": s.AliasesRefused, "range_groups": s.Counters.GroupsRejected["range_full"] + s.Counters.GroupsRejected["host_full"],
	}
	for d := range c.Direction {
		n["management_ring"] += c.Direction[d].Drops[lcore.DropPuntFull]
	}
	return n
}
