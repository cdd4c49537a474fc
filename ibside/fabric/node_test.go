// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

var testGroups = []GroupConfig{{MGID: testMGID, QKey: testQKey}, {MGID: mustGID("ff12:401b:ffff::f01:203"), QKey: ib.QKeyIPoIB}}

func TestPublishListen(t *testing.T) {
	var mu sync.Mutex
	seen := map[uint64]int{} // by number, of undamaged messages
	f := newFabric(t, Config{Nodes: []NodeConfig{
		{Name: "publish", GUID: 0x2, Role: RolePublish, Groups: testGroups, RatePPS: 5000, Size: 1000, Count: 100},
		{Name: "listen", GUID: 0x3, Role: RoleListen, Groups: testGroups, OnMessage: func(_ *Node, r *Received) {
			mu.Lock()
			defer mu.Unlock()
			if s, v := stamp.Read(r.Payload); v == stamp.Whole && len(r.Payload) == 1000 {
				seen[s.Number]++
			}
		}},
		{Name: "one group", GUID: 0x4, Role: RoleListen, Groups: testGroups[1:]},
		{Name: "none", GUID: 0x5},
	}})
	want := map[string]NodeStats{
		"publish":   {Published: 200},
		"listen":    {Received: 200, Stamped: 200},
		"one group": {Received: 100, Stamped: 100},
		"none":      {},
	}
	for name, stats := range want {
		n := f.Node(name)
		waitFor(t, name+"'s messages", func() bool { s := n.Stats(); return s.Received+s.Published >= stats.Received+stats.Published })
	}
	waitFor(t, "quiet subnet", f.Quiet)
	waitFor(t, "the last callback", func() bool {
		mu.Lock()
		defer mu.Unlock()
		total := 0
		for _, n := range seen {
			total += n
		}
		return total == 200
	})
	for name, stats := range want {
		if got := f.Node(name).Stats(); got != stats {
			t.Errorf("%s: %+v, want %+v", name, got, stats)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 100 || seen[1] != 2 {
		t.Errorf("%d different messages, the first one %d times; want 100, 2", len(seen), seen[1])
	}
	if f.Node("nobody") != nil || len(f.Nodes()) != 4 {
		t.Error("Node finds a node that is not there")
	}
}

func TestEcho(t *testing.T) {
	f := newFabric(t, Config{Nodes: []NodeConfig{
		{Name: "echo", GUID: 0x2, Role: RoleEcho, QPN: 0x48, QKey: testQKey, Groups: testGroups[:1]},
	}})
	echo := f.Node("echo")
	h := attachHCA(t, f, PortConfig{Name: "asker", GUID: 0x9})
	recv := NewRecvQueue(4)
	q := mustQP(t, h, QPConfig{QKey: testQKey, Recv: recv})
	rec, err := NewSAClient(h).Join(t.Context(), ib.MCMemberFields{
		MGID: testMGID, QKey: testQKey, PKey: 0xffff, JoinState: ib.JoinSendOnly,
	})
	if err != nil {
		t.Fatal(err)
	}
	toEcho := &ib.GRHFields{DGID: echo.HCA().Info().GID, TClass: 5, HopLimit: 6}
	for _, c := range []struct {
		name string
		send Send
		grh  bool
	}{
		{"plain", Send{AH: AH{DLID: 2, SL: 3}, DestQP: 0x48, QKey: testQKey, Payload: []byte("who")}, false},
		{"immediate, GRH", Send{
			AH: AH{DLID: 2, GRH: toEcho}, DestQP: 0x48, QKey: testQKey, Imm: 0xabcdef, HasImm: true, Solicited: true,
		}, true},
		{"multicast", Send{
			AH: AH{DLID: rec.MLID, GRH: &ib.GRHFields{DGID: testMGID}}, DestQP: ib.QPMulticast, QKey: testQKey, Payload: []byte("all"),
		}, true},
	} {
		if cause := q.Send(&c.send); cause != "" {
			t.Fatalf("%s: %s", c.name, cause)
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		if err := recv.Wait(ctx); err != nil {
			t.Fatalf("%s: no answer: %+v", c.name, h.Stats())
		}
		cancel()
		got := make([]Received, 1)
		recv.Poll(got)
		r := &got[0]
		if !bytes.Equal(r.Payload, c.send.Payload) || r.Imm != c.send.Imm || r.HasImm != c.send.HasImm || r.Solicited != c.send.Solicited ||
			r.SrcQP != 0x48 || r.SLID != 2 || r.SL != c.send.AH.SL || r.HasGRH != c.grh {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	waitFor(t, "the echo's count", func() bool { return echo.Stats().Echoed == 3 })
	if s := echo.Stats(); s.Received != 3 || s.Unsent != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestListenerChecks(t *testing.T) {
	n := &Node{cfg: NodeConfig{Role: RoleListen}, streams: map[stream]*stamp.Sequence{}}
	from := func(qpn ib.QPN, payload []byte) { n.messages([]Received{{SrcQP: qpn, Payload: payload}}) }
	damaged := stamp.Message(9, 40)
	damaged[39] ^= 1
	for _, number := range []uint64{5, 6, 9, 7, 10} { // 7 and 8 are missing, then 7 is late
		from(1, stamp.Message(number, 40))
	}
	from(2, stamp.Message(1, stamp.Len))
	from(2, stamp.Message(1, stamp.Len)) // twice
	from(2, []byte("not a test message"))
	from(3, damaged)
	if want := (NodeStats{Received: 9, Stamped: 8, Damaged: 1, Missing: 1, Late: 2}); n.Stats() != want {
		t.Errorf("stats %+v\nwant  %+v", n.Stats(), want)
	}
}
