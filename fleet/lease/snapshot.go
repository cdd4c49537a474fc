// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"slices"
	"time"

	"causeway/fleet/shards"
)

// Snapshot is what a member knows of its fleet.
type Snapshot struct {
	Epoch      Epoch              // of the newest assignment; zero: there is none
	Assignment *shards.Assignment // nil: there is none
	Connected  bool               // something has come from the store since the watch began
	Members    []Seen             // by name
	Waits      []string           // members of the newest assignment, which this one is not in, of whom one has to propose another
	Unnamed    bool               // the member has not its name yet: the process that had it may go on without the store
}

// Seen is what a member saw of a process.
type Seen struct {
	Record
	Ago    time.Duration // since its last record
	Silent bool          // for so long that its lease has run out
}

// Snapshot returns what the member knows, while Run runs.
func (m *Member) Snapshot(ctx context.Context) (Snapshot, error) {
	came := make(chan Snapshot, 1)
	m.post(ctx, func(now time.Time) {
		s := m.view.snapshot(now)
		s.Unnamed, s.Waits = !m.rules.named(m, now), m.view.waits(now)
		came <- s
	})
	select {
	case s := <-came:
		return s, nil
	case <-ctx.Done():
		return Snapshot{}, ctx.Err()
	}
}

func (v *view) snapshot(now time.Time) Snapshot {
	s := Snapshot{Epoch: v.epoch, Connected: v.live}
	if v.epoch != (Epoch{}) {
		s.Assignment = v.newest().Assignment
	}
	for _, p := range v.processes {
		s.Members = append(s.Members, Seen{p.Record, now.Sub(p.seen), v.silent(p, now)})
	}
	slices.SortFunc(s.Members, func(a, b Seen) int { return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Ago, b.Ago)) })
	return s
}
