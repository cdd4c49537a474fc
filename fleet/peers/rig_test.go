// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rig is a fleet in simulated time: its store, its two fabrics, and the members, by name.
type rig struct {
	t        *testing.T
	mu       sync.Mutex
	records  map[string]Record
	changed  chan struct{} // closed at each change
	away     bool          // the store does not answer
	founding byte          // its founding's number, of which its secret is made
	random   *rand.Rand
	loss     int // of a thousand messages
	cut      func(from, to string, f Fabric) bool
	saw      func(from, to string, f Fabric, message []byte)
	members  map[string]*node
	running  sync.WaitGroup
}

// node is one process of a member.
type node struct {
	*Peers
	r      *rig
	name   string
	end    context.CancelFunc
	ended  chan struct{}
	dead   bool
	stands time.Time // nothing comes before
	mu     sync.Mutex
	log    bytes.Buffer
	heard  []string
}

func newRig(t *testing.T, seed uint64) *rig {
	return &rig{t: t, records: map[string]Record{}, changed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 1)),
		cut: func(string, string, Fabric) bool { return false }, saw: func(string, string, Fabric, []byte) {}, members: map[string]*node{}}
}

// close ends all members.
func (r *rig) close() {
	for _, n := range r.members {
		n.end()
	}
	r.running.Wait()
}

// start starts members.
func (r *rig) start(names ...string) {
	for _, name := range names {
		n := &node{r: r, name: name, ended: make(chan struct{})}
		r.mu.Lock()
		process := r.random.Uint64()
		r.mu.Unlock()
		var err error
		n.Peers, err = New(Config{Fleet: "east", Name: name, Process: process, Ways: [Fabrics]Way{&simWay{n, Ethernet}, &simWay{n, InfiniBand}}, Store: r,
			Heard: n.hear, Log: slog.New(slog.NewTextHandler(n, nil))})
		if err != nil {
			r.t.Fatal(err)
		}
		for f := range Fabric(Fabrics) {
			n.Reach(f, Address(name))
		}
		ctx, end := context.WithCancel(context.Background())
		n.end = end
		r.mu.Lock()
		r.members[name] = n
		r.mu.Unlock()
		r.running.Go(func() {
			n.Run(ctx)
			close(n.ended)
		})
	}
}

// kill has a member say and hear nothing any more.
func (r *rig) kill(name string) {
	r.mu.Lock()
	n := r.members[name]
	n.dead = true
	r.mu.Unlock()
	n.end()
	<-n.ended
}

func (n *node) hear(member string, _ uint64, word []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = append(n.heard, fmt.Sprintf("%s: %s", member, word))
}

// words returns what was heard.
func (n *node) words() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.heard)
}

// Write takes a line of the log.
func (n *node) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(b)
}

// logged returns the lines of an event, but for their time.
func (n *node) logged(event string) (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(n.log.String()) {
		if _, line, _ = strings.Cut(strings.TrimSpace(line), " "); strings.Contains(line, "msg="+event) {
			lines = append(lines, line)
		}
	}
	return lines
}

// simWay is a member's part of a fabric.
type simWay struct {
	n      *node
	fabric Fabric
}

// Say implements Way.
func (w *simWay) Say(to Address, message []byte) error {
	r := w.n.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(message) > MaxMessage || to == "nowhere" {
		return errors.New("simulated: it cannot be sent")
	}
	other := r.members[string(to)]
	if w.n.dead || other == nil || r.random.IntN(1000) < r.loss || r.cut(w.n.name, other.name, w.fabric) {
		return nil
	}
	r.saw(w.n.name, other.name, w.fabric, message)
	time.AfterFunc(time.Millisecond+time.Duration(r.random.IntN(2e6)), func() { other.arrive(w.fabric, message) })
	return nil
}

func (n *node) arrive(f Fabric, message []byte) {
	n.r.mu.Lock()
	until := n.stands
	dead := n.dead
	n.r.mu.Unlock()
	time.Sleep(time.Until(until))
	if !dead {
		n.Received(f, message)
	}
}

var errAway = errors.New("simulated: the store does not answer")

// change has the store change, if it answers.
func (r *rig) change(f func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return errAway
	}
	f()
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// Founded implements Store.
func (r *rig) Founded(context.Context) (founded uint64, err error) {
	err = r.change(func() { founded = 7 + uint64(r.founding) })
	return founded, err
}

// leave has the store be away.
func (r *rig) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
	close(r.changed)
	r.changed = make(chan struct{})
}

// Secret implements Store.
func (r *rig) Secret(context.Context) (secret []byte, err error) {
	err = r.change(func() { secret = bytes.Repeat([]byte{5 + r.founding}, SecretLen) })
	return secret, err
}

// PutPeer implements Store.
func (r *rig) PutPeer(_ context.Context, member string, record Record) error {
	return r.change(func() { r.records[member] = record })
}

// RemovePeer implements Store.
func (r *rig) RemovePeer(_ context.Context, member string, record Record) error {
	return r.change(func() {
		if n := r.members[member]; !n.dead && r.records[member].Process == record.Process {
			delete(r.records, member)
		}
	})
}

// WatchPeers implements Store.
func (r *rig) WatchPeers(ctx context.Context, f func(all map[string]Record)) error {
	for {
		r.mu.Lock()
		all, changed, away := maps.Clone(r.records), r.changed, r.away
		r.mu.Unlock()
		if away {
			return errAway
		}
		f(all)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// up waits until all sessions are up.
func (r *rig) up() {
	r.t.Helper()
	for range 100 {
		sessions, up := 0, 0
		for _, n := range r.members {
			for _, s := range n.Sessions() {
				sessions++
				if s.State.String() == "Up" {
					up++
				}
			}
		}
		if n := len(r.members); sessions == n*(n-1)*Fabrics && up == sessions {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for name, n := range r.members {
		r.t.Logf("%s has %+v", name, n.Sessions())
	}
	r.t.Fatal("not all sessions are up after 10 s")
}

// lost returns who has lost a fabric.
func (r *rig) lost(f Fabric) (names string) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if n := r.members[name]; n != nil && n.Lost(f) != "" {
			names += name
		}
	}
	return names
}

// during lets time pass, and returns the first sight of who is lost that is not as expected.
func (r *rig) during(d time.Duration, f Fabric, expected string) string {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		if names := r.lost(f); names != expected {
			return fmt.Sprintf("%q at %v before the end, on %v", names, time.Until(end), f)
		}
	}
	return ""
}
