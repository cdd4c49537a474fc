// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

var peerIP, hostIP = netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("10.9.0.1")

// TestUnicast sends to a node and back on each fabric. The datapath sees one node and one queue pair.
func TestUnicast(t *testing.T) {
	r := newRig(t, Rule{})
	path, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0])
	if err != nil || path.MTU != ib.MTU2048 {
		t.Fatalf("%+v, %v", path, err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
	qp, qpn, err := r.port.CreateProxyQP(0, pkeys[0], groupQKey)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b"} {
		if err := r.port.Prefer(name); err != nil {
			t.Fatal(err)
		}
		s := porttest.Send{QP: qp, DestQP: r.peers[i].qp.QPN(), QKey: groupQKey, DLID: path.LID, SL: path.SL, Imm: uint32(qpn),
			Flags: porttest.SendImm | porttest.SendImmQPN}
		r.send(t, s, stamp.Message(7, 64))
		var got []fabric.Received
		within(t, patience, "the message at "+name, func() bool { got = append(got, r.peers[i].take()...); return len(got) > 0 })
		if got[0].Imm != uint32(got[0].SrcQP) || i == 0 && got[0].SrcQP != qpn {
			t.Errorf("%s: immediate %#x of queue pair %v", name, got[0].Imm, got[0].SrcQP)
		}
		for _, grh := range []bool{false, true} {
			answer := &fabric.Send{AH: fabric.AH{DLID: got[0].SLID}, DestQP: got[0].SrcQP, QKey: groupQKey, Payload: stamp.Message(8, 64)}
			if grh {
				answer.AH.GRH = &ib.GRHFields{DGID: r.ports[i].Own().GIDs[0]}
			}
			if why := r.peers[i].qp.Send(answer); why != "" {
				t.Fatal(why)
			}
			m, b := r.last(t)
			if m.QPN != qpn || !grh && m.SLID != path.LID || grh && ib.GID(b[8:24]) != nodeGID(0) {
				t.Errorf("%s, GRH %v: the answer came to %v from LID %v, GID %v; want %v, %v, %v", name, grh, m.QPN, m.SLID, ib.GID(b[8:24]), qpn, path.LID, nodeGID(0))
			}
		}
	}
	if err := r.port.DestroyProxyQP(qp); err != nil {
		t.Error(err)
	}
	if err := r.port.DestroyProxyQP(qp); err == nil {
		t.Error("destroyed a proxy QP twice")
	}
	if _, err := r.port.Path(t.Context(), ib.GID{0xfe, 0x80, 15: 99}, pkeys[0]); !errors.Is(err, ibside.ErrNoPath) {
		t.Errorf("the path to nobody: %v", err)
	}
}

// TestStranger: a QPN of the second fabric that is none of a host's must not pass for one of the first's.
func TestStranger(t *testing.T) {
	r := newRig(t, Rule{})
	_, qpn, err := r.port.CreateProxyQP(0, pkeys[0], groupQKey)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := r.ports[1].CreateProxyQP(0, pkeys[1], groupQKey) // none of the composed port's
	if err != nil {
		t.Fatal(err)
	}
	to := r.ports[1].Own().LID
	r.peers[1].qp.Send(&fabric.Send{AH: fabric.AH{DLID: to}, DestQP: other, QKey: groupQKey, Payload: stamp.Message(1, 64)})
	if m, _ := r.last(t); m.QPN == qpn || m.QPN != 0 {
		t.Errorf("it came to %v", m.QPN)
	}
	if n := r.port.Reports()[1].Counters.Stranger; n != 1 {
		t.Errorf("%d strangers", n)
	}
}

// TestLateMember: a group is carried while one fabric does not take the join, and joined there later.
func TestLateMember(t *testing.T) {
	r := newRig(t, Rule{})
	r.port.othersWait = othersWait
	speak := silence(t, r.fabrics[0])
	began := time.Now()
	m, err := r.port.Join(t.Context(), ibside.Join{MGID: group, QKey: groupQKey, PKey: pkeys[0], Receive: true})
	if err != nil || time.Since(began) > joinTimeout/2 || m.MTU != ib.MTU2048 {
		t.Fatalf("%+v, %v after %v", m, err, time.Since(began))
	}
	if r.active() != 1 {
		t.Errorf("port %d is active", r.active())
	}
	speak()
	within(t, patience, "the other fabric", func() bool { return r.port.Reports()[0].Missing == 0 })
	if r.active() != 1 {
		t.Error("it moved")
	}
	if err := r.port.Leave(t.Context(), group); err != nil {
		t.Error(err)
	}
	if err := r.port.Leave(context.Background(), group); err == nil {
		t.Error("left a group twice")
	}
	if n := len(r.port.lids.used); n != 0 {
		t.Errorf("%d LIDs are in use", n)
	}
}

// TestLIDsMove: a node comes back with another LID. Its messages without a GRH are its own again when management has
// asked, and nobody's before.
func TestLIDsMove(t *testing.T) {
	r := newRig(t, Rule{})
	path, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0])
	if err != nil {
		t.Fatal(err)
	}
	qp, qpn, err := r.port.CreateProxyQP(0, pkeys[0], groupQKey)
	if err != nil {
		t.Fatal(err)
	}
	within(t, patience, "a subscription", func() bool { return r.fabrics[0].SA().Subscriptions() >= 4 })
	within(t, patience, "both ways", func() bool { return r.port.Reports()[0].Nodes+r.port.Reports()[1].Nodes == 2 })
	r.port.attempts.Wait() // nor is it asked for by itself any more
	old := r.peers[0].hca.Info().LID
	if err := r.peers[0].hca.Close(); err != nil {
		t.Fatal(err)
	}
	r.peers[0] = newPeer(t, r.fabrics[0], 0)
	if r.peers[0].hca.Info().LID == old {
		t.Fatal("it has the same LID")
	}
	to := r.ports[0].Own().LID
	send := func() porttest.Recv {
		r.peers[0].qp.Send(&fabric.Send{AH: fabric.AH{DLID: to}, DestQP: qpn, QKey: groupQKey, Payload: stamp.Message(1, 64)})
		m, _ := r.last(t)
		return m
	}
	if m := send(); m.SLID == path.LID {
		t.Error("before the path is asked for, the new LID is the node's")
	}
	select {
	case <-r.port.Changed():
	case <-time.After(5 * time.Second):
		t.Fatal("nothing tells of the port that came")
	}
	if n := r.port.Renewed(); !slices.Contains(n.Ports, nodeGID(0)) {
		t.Errorf("renewed: %+v", n)
	}
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	if m := send(); m.SLID != path.LID {
		t.Errorf("it came from LID %v, want %v", m.SLID, path.LID)
	}
	r.send(t, porttest.Send{QP: qp, DestQP: r.peers[0].qp.QPN(), QKey: groupQKey, DLID: path.LID, SL: path.SL}, stamp.Message(2, 64))
	within(t, patience, "the message at its new LID", func() bool { return len(r.peers[0].take()) == 1 })
}

// TestPathAskedAgain: while the path to a node is asked for again and again, all its messages without a GRH are its own.
func TestPathAskedAgain(t *testing.T) {
	r := newRig(t, Rule{})
	path, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0])
	if err != nil {
		t.Fatal(err)
	}
	_, qpn, err := r.port.CreateProxyQP(0, pkeys[0], groupQKey)
	if err != nil {
		t.Fatal(err)
	}
	r.asWorker(t)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	p := ibside.Path{LID: r.peers[0].hca.Info().LID}
	asking.Go(func() {
		for ctx.Err() == nil {
			r.port.mu.Lock()
			r.port.nodes.nameLIDs(r.port.byGID[nodeGID(0)], 0, &p)
			r.port.mu.Unlock()
		}
	})
	for range 2000 {
		r.peers[0].qp.Send(&fabric.Send{AH: fabric.AH{DLID: r.ports[0].Own().LID}, DestQP: qpn, QKey: groupQKey, Payload: stamp.Message(1, 64)})
		for r.take() == 0 {
			runtime.Gosched()
		}
		if m, _ := r.last(t); m.SLID != path.LID {
			t.Fatalf("it came from LID %v, want %v", m.SLID, path.LID)
		}
	}
}

// TestServices: an answer has the queue pair of the port that the request came by, and a node is asked by another port
// when its active one is down.
func TestServices(t *testing.T) {
	r := newRig(t, Rule{})
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
	var cms []*fabric.CM
	for _, p := range r.peers {
		cm := fabric.NewCM(p.hca, fabric.CMConfig{Timeout: 50 * time.Millisecond, Tries: 100})
		t.Cleanup(cm.Close)
		qpn := p.qp.QPN()
		if err := cm.Serve([]fabric.CMPorts{{First: 100, Last: 100}}, func(q *fabric.CMRequest) { _ = q.Accept(qpn, groupQKey, nil) }); err != nil {
			t.Fatal(err)
		}
		cms = append(cms, cm)
	}
	_, qpn, err := r.port.CreateProxyQP(0, pkeys[0], groupQKey)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(q ibside.ServiceRequest) {
		if q.PKey != pkeys[0] {
			t.Errorf("the request came in partition %v", q.PKey)
		}
		_ = q.Answer(ibside.ServiceAnswer{QPN: qpn, QKey: groupQKey})
	}
	if err := r.port.Serve([]ibside.PortRange{{First: 7, Last: 7}}, serve); err != nil {
		t.Fatal(err)
	}
	for i, cm := range cms {
		a, err := cm.Connect(t.Context(), fabric.CMConnect{Route: fabric.MADAddress{LID: r.ports[i].Own().LID}, From: peerIP, To: hostIP, Port: 7, PKey: pkeys[i]})
		if err != nil || r.port.pairs.made[1].qpn[i] != a.QPN {
			t.Errorf("port %d answers with %v, %v; its queue pairs are %v", i, a.QPN, err, r.port.pairs.made[1].qpn)
		}
		r.cut(t, 1-i, true)
		within(t, patience, "the cut", func() bool { return r.port.Reports()[1-i].Down != "" })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		b, err := r.port.Connect(ctx, ibside.ServiceConnect{From: hostIP, To: peerIP, ToGID: nodeGID(0), Port: 100, PKey: pkeys[0]})
		cancel()
		if err != nil || b.QPN != r.peers[i].qp.QPN() {
			t.Errorf("fabric %d answers with %v, %v; want %v", i, b.QPN, err, r.peers[i].qp.QPN())
		}
		r.cut(t, 1-i, false)
	}
}

// TestServiceLeavesPort: a request is under way by a port that goes down. It is asked again by the other at once, and not
// when the first one's share of the time is over; so is one that comes before the judge has seen that the port is down.
func TestServiceLeavesPort(t *testing.T) {
	r := newRig(t, Rule{})
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
	asked := make(chan struct{}, 1)
	for i, p := range r.peers {
		cm := fabric.NewCM(p.hca, fabric.CMConfig{})
		t.Cleanup(cm.Close)
		answer := func(q *fabric.CMRequest) { _ = q.Accept(p.qp.QPN(), groupQKey, nil) }
		if i == 0 {
			answer = func(*fabric.CMRequest) { asked <- struct{}{} }
		}
		if err := cm.Serve([]fabric.CMPorts{{First: 100, Last: 100}}, answer); err != nil {
			t.Fatal(err)
		}
	}
	const share = 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*share)
	defer cancel()
	connect := func() {
		begun := time.Now()
		a, err := r.port.Connect(ctx, ibside.ServiceConnect{From: hostIP, To: peerIP, ToGID: nodeGID(0), Port: 100, PKey: pkeys[0]})
		if took := time.Since(begun); err != nil || a.QPN != r.peers[1].qp.QPN() || took > share/3 {
			t.Errorf("after %v: %v, %v; want %v", took, a.QPN, err, r.peers[1].qp.QPN())
		}
	}
	var ended sync.WaitGroup
	ended.Go(connect)
	select {
	case <-asked:
	case <-time.After(share):
		t.Error("the first port's server is not asked")
	}
	r.cut(t, 0, true)
	ended.Wait()
	r.cut(t, 0, false)
	within(t, patience, "the port is up", func() bool { return r.port.Reports()[0].Down == "" })
	if err := r.port.Prefer("a"); err != nil {
		t.Fatal(err)
	}
	r.cut(t, 0, true)
	connect()
}

// TestServiceOvertaken: a port answers a request that it got before another port was preferred. The node stays on that one,
// which is asked, too: by it the host's messages will go.
func TestServiceOvertaken(t *testing.T) {
	r := newRig(t, Rule{})
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
	for i, p := range r.peers {
		cm := fabric.NewCM(p.hca, fabric.CMConfig{})
		t.Cleanup(cm.Close)
		answer := func(q *fabric.CMRequest) {
			if i == 0 {
				if err := r.port.Prefer("b"); err != nil {
					t.Error(err)
				}
			}
			_ = q.Accept(p.qp.QPN(), groupQKey, nil)
		}
		if err := cm.Serve([]fabric.CMPorts{{First: 100, Last: 100}}, answer); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, err := r.port.Connect(ctx, ibside.ServiceConnect{From: hostIP, To: peerIP, ToGID: nodeGID(0), Port: 100, PKey: pkeys[0]})
	if err != nil || a.QPN != r.peers[1].qp.QPN() {
		t.Errorf("the answer is %v, %v; want %v", a.QPN, err, r.peers[1].qp.QPN())
	}
	if d := r.port.judge.byGID[nodeGID(0)]; d.current != 1 {
		t.Errorf("the node is on port %d; want the preferred one, 1", d.current)
	}
}
