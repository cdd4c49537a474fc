// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// asked returns what management was asked for, and checks that nothing else was punted.
func asked(t *testing.T, s *rig) (all []ib.NodeKey) {
	t.Helper()
	for _, p := range s.takePunted() {
		if p.Unknown == (ib.NodeKey{}) || p.Pending != nil {
			t.Errorf("punted %+v", p)
		}
		all = append(all, p.Unknown)
	}
	return all
}

// TestUnknownNodes checks that management is asked for nodes that no table has, where they are learned: for each once
// in a while, and for so many at most. The packets are counted as dropped.
func TestUnknownNodes(t *testing.T) {
	stranger, far := mustGID("fe80::99"), netip.MustParseAddr("10.10.0.99")
	for _, learn := range []bool{false, true} {
		w := smallFixture()
		w.config.LearnNodes = learn
		s := newRig(t, w)
		for _, c := range []struct {
			name string
			send func()
			dir  lcore.Direction
			drop string
			want ib.NodeKey
		}{
			{"a GID", func() { s.fromIB(received(fromNode(stranger, nodeLID))) }, lcore.IBToRoCE, "node_unknown", ib.NodeKey{GID: stranger}},
			{"a LID", func() { s.fromIB(received(noGRH, func(m *message) { m.SLID = 99 })) }, lcore.IBToRoCE, "node_unknown", ib.NodeKey{LID: 99}},
			{"an address", func() { s.fromRoCE(v4(dest("10.10.0.99"))) }, lcore.RoCEToIB, "node_unknown", ib.NodeKey{IP: far}},
			{"a proxy QP that there is not", func() { s.fromIB(received(fromNode(mustGID("fe80::98"), 98), func(m *message) { m.QPN = 0x999 })) },
				lcore.IBToRoCE, "proxy_qp_unknown", ib.NodeKey{}},
		} {
			before := s.counters(c.dir)
			c.send()
			if drops := s.droppedSince(c.dir, before); len(drops) != 1 || fmt.Sprint(drops) != "map["+c.drop+":1]" {
				t.Errorf("%s: dropped %v", c.name, drops)
			}
			var want []ib.NodeKey
			if learn && c.want != (ib.NodeKey{}) {
				want = append(want, c.want)
			}
			if got := asked(t, s); !slices.Equal(got, want) {
				t.Errorf("%s: asked for %+v, want %+v", c.name, got, want)
			}
		}
	}
}

// TestUnknownFlood checks that a flood of messages from unknown nodes asks for few of them in each tenth of a second,
// and goes on to ask in the next.
func TestUnknownFlood(t *testing.T) {
	w := smallFixture()
	w.config.LearnNodes = true
	s := newRig(t, w)
	const burst, most, slice = 50, 32, 100 * time.Millisecond
	messages, n := uint64(0), 0
	began := time.Now()
	for n <= 2*most && time.Since(began) < time.Minute {
		var all []message
		for range burst {
			messages++
			all = append(all, received(fromNode(ib.GIDFromGUID(0xfe80<<48, ib.GUID(0x1000+messages)), nodeLID)))
		}
		s.fromIB(all...)
		n += len(asked(t, s))
	}
	took := time.Since(began)
	took += took / 256 // the frequency of the workers' clock is rounded to 10 MHz
	tenths := int(took/slice) + 1
	if n <= 2*most || n > tenths*most {
		t.Errorf("asked for %d of %d nodes in %d slices of time", n, messages, tenths)
	}
	if c := s.counters(lcore.IBToRoCE); c.Received != messages || c.Dropped() != messages {
		t.Errorf("received %d, dropped %d of %d", c.Received, c.Dropped(), messages)
	}
}

// TestAskedByDirection: a flood from unknown nodes leaves the other direction its questions; and who may not cross asks none.
func TestAskedByDirection(t *testing.T) {
	w := smallFixture()
	w.config.LearnNodes = true
	s := newRig(t, w)
	for n := range uint64(100) {
		s.fromIB(received(fromNode(ib.GIDFromGUID(0xfe80<<48, ib.GUID(0x1000+n)), nodeLID)))
	}
	if len(asked(t, s)) == 0 {
		t.Error("no unknown node was asked for")
	}
	for _, c := range []struct {
		from string
		want int
	}{{strangerIP.String(), 0}, {newcomerIP.String(), 1}} {
		s.fromRoCE(v4(from(c.from), dest("10.10.0.99")))
		want(t, "asked for a node by "+c.from, len(asked(t, s)), c.want)
	}
}

// TestUsedNodes checks that what crosses from a node, or to it, marks it as used.
func TestUsedNodes(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, step := range []struct {
		name  string
		cross func()
		want  bool
	}{
		{"nothing crosses", func() {}, false},
		{"to it", func() { s.fromRoCE(v4()) }, true},
		{"nothing more", func() {}, false},
		{"to it, from who may not cross", func() { s.fromRoCE(v4(from("192.0.2.1"))) }, false},
		{"to it, too long", func() { s.fromRoCE(v4(payload(4097))) }, false},
		{"from it, by its GID", func() { s.fromIB(received()) }, true},
		{"from it, by its LID", func() { s.fromIB(received(noGRH)) }, true},
		{"from another", func() { s.fromIB(received(fromNode(node4GID, node4LID))) }, false},
	} {
		step.cross()
		if got := s.tables.Nodes.TakeUsed(s.fixture.nodes[0].GID); got != step.want {
			t.Errorf("%s: used: %v, want %v", step.name, got, step.want)
		}
	}
}
