// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

func groupGID(n int) ib.GID { return gid(fmt.Sprintf("239.1.%d.%d", n>>8, n&0xff)) }

func TestGroups(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{Workers: 2})
	qp, qpn := a.proxyQP(t, 0, testQKey)
	ctx := t.Context()
	if _, err := a.Join(ctx, ibside.Join{MGID: groupGID(1), QKey: groupQKey, PKey: ib.PKeyDefault}); err != nil {
		t.Fatal("send-only: ", err)
	}
	send := func(n int, text string) {
		a.post(t, 0, porttest.Send{
			QP: qp, DGID: groupGID(n), HopLimit: 64, DestQP: ib.QPMulticast, QKey: groupQKey, Flags: porttest.SendGRH,
			Mbuf: a.alloc(t, []byte(text)),
		})
		a.quiet(t)
	}
	for worker := range 2 {
		n := 1 + worker
		m, err := b.Join(ctx, ibside.Join{MGID: groupGID(n), QKey: groupQKey, PKey: ib.PKeyDefault, Worker: worker, Receive: true})
		if err != nil || m.QKey != groupQKey || m.MTU != b.portInfo().MTU {
			t.Fatalf("Join = %+v, %v", m, err)
		}
		send(n, "first")
		got, payload := b.poll(worker, 1, 5*time.Second)
		if len(got) != 1 || !slices.Contains(b.groupQPNs(), got[0].QPN) || got[0].SrcQP != qpn || string(payload[0][areaLen:]) != "first" {
			t.Fatalf("worker %d: %+v %q, want %v on one of %v", worker, got, payload, qpn, b.groupQPNs())
		}
		again, err := b.Join(ctx, ibside.Join{MGID: groupGID(n), QKey: groupQKey, PKey: ib.PKeyDefault, Worker: worker, Receive: true})
		if err != nil || again != m {
			t.Errorf("joined again: %+v, %v, want %+v", again, err, m)
		}
		send(n, "second")
		if got, _ := b.poll(worker, 2, 300*time.Millisecond); len(got) != 1 {
			t.Errorf("worker %d: %d copies after the second join", worker, len(got))
		}
		if err := b.Leave(ctx, groupGID(n)); err != nil {
			t.Fatal(err)
		}
		send(n, "third")
		if got, _ := b.poll(worker, 1, 300*time.Millisecond); len(got) != 0 {
			t.Errorf("worker %d: received after it left", worker)
		}
	}
	if err := b.Leave(ctx, groupGID(1)); err == nil {
		t.Error("left a group twice")
	}
	if _, err := b.Join(ctx, ibside.Join{MGID: gid("ff0e::1:2"), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true}); err == nil {
		t.Error("the kernel's rdma_cm has no IPv6 groups, but a join of one succeeded")
	}
}

func TestThousandGroups(t *testing.T) {
	const count = 1000
	a, b := newSide(t, Config{}), newSide(t, Config{Receives: 1024})
	qp, _ := a.proxyQP(t, 0, testQKey)
	start := time.Now()
	for n := range count {
		_, err := b.Join(t.Context(), ibside.Join{MGID: groupGID(n), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	qpns := b.groupQPNs()
	t.Logf("%d groups joined in %v, on %d queue pairs", count, time.Since(start).Round(time.Millisecond), len(qpns))
	if len(qpns) != (count+groupsPerQP-1)/groupsPerQP || b.counters().Groups != count {
		t.Errorf("%d queue pairs, %+v", len(qpns), b.counters())
	}
	for n := 0; n < count; n += 111 {
		a.post(t, 0, porttest.Send{
			QP: qp, DGID: groupGID(n), HopLimit: 64, DestQP: ib.QPMulticast, QKey: groupQKey, Flags: porttest.SendGRH,
			Mbuf: a.alloc(t, fmt.Appendf(nil, "group %d", n)),
		})
		a.quiet(t)
		if got, payload := b.poll(0, 1, 5*time.Second); len(got) != 1 || string(payload[0][areaLen:]) != fmt.Sprintf("group %d", n) {
			t.Fatalf("group %d: %d messages, %q", n, len(got), payload)
		}
	}
}

// flow sends a message to b repeatedly until one arrives.
func flow(t *testing.T, a, b *side, qp uint32, dst ib.QPN, d time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	for n := 0; time.Since(start) < d; n++ {
		s := a.to(qp, dst, 0, porttest.SendGRH)
		want := fmt.Sprintf("try %d", n)
		s.Mbuf = a.alloc(t, []byte(want))
		a.post(t, 0, s)
		porttest.Free(a.Pointer(0))
		if _, p := b.poll(0, 1, 5*time.Millisecond); slices.ContainsFunc(p, func(p []byte) bool { return len(p) >= areaLen }) {
			return time.Since(start)
		}
	}
	t.Fatalf("no traffic within %v; the sender %+v\nthe receiver %+v", d, a.counters(), b.counters())
	return 0
}

// TestRecovery puts queue pairs in the error state: they come back under their own number, and the other goes on.
func TestRecovery(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{})
	qp, _ := a.proxyQP(t, 0, testQKey)
	other, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	flow(t, a, b, qp, dst, 5*time.Second)
	for range 5 {
		before := a.quiet(t)
		a.qps[qp].injectFailure()
		for range 10 {
			s, o := a.to(qp, dst, 0, porttest.SendGRH), a.to(other, dst, 0, porttest.SendGRH)
			s.Mbuf, o.Mbuf = a.alloc(t, []byte("flushed")), a.alloc(t, []byte("other"))
			a.post(t, 0, s, o)
		}
		if !until(5*time.Second, func() bool { return a.counters().Recovered > before.Recovered }, a) {
			t.Fatalf("not recovered: %+v", a.counters())
		}
		c := a.quiet(t)
		if lost := c.SendDrops["wc_flushed"] + c.SendDrops["qp_down"]; lost == before.SendDrops["wc_flushed"]+before.SendDrops["qp_down"] {
			t.Errorf("the failed queue pair has flushed nothing: %+v", c)
		}
		if c.Sent-before.Sent < 10 {
			t.Errorf("%d sent, want the other queue pair's ten: %+v", c.Sent-before.Sent, c)
		}
		b.poll(0, 1000, 50*time.Millisecond)
		flow(t, a, b, qp, dst, time.Second)
	}
}

func shell(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func needNetdev(t *testing.T) string {
	t.Helper()
	if *netdevFlag == "" {
		t.Skip("needs the network interface of an RDMA device, to take down: give -device rxe0 -netdev eth0")
	}
	return *netdevFlag
}

// TestLinkDown takes the link down under traffic, which puts the queue pair in the error state, and up again.
func TestLinkDown(t *testing.T) {
	dev := needNetdev(t)
	a, b := newSide(t, Config{}), newSide(t, Config{})
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	flow(t, a, b, qp, dst, 5*time.Second)
	restore := "true" // the kernel drops IPv6 addresses when the link goes down
	for _, g := range a.portInfo().GIDs {
		if g.Type == GIDTypeRoCEv2 && !g.GID.IsIPv4Mapped() && !isLinkLocal(g.GID) {
			restore += fmt.Sprintf("; ip addr add %v/64 dev %s || true", g.GID, dev)
		}
	}
	defer func() { shell(t, "ip link set "+dev+" up; "+restore) }()
	shell(t, "ip link set "+dev+" down")
	lost := false
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && !lost; {
		s := a.to(qp, dst, 0, porttest.SendGRH)
		s.Mbuf = a.alloc(t, []byte("into the void"))
		a.post(t, 0, s)
		time.Sleep(10 * time.Millisecond)
		c := a.counters()
		lost = c.SendDrops.Sum() > 0 && c.Events[string(eventPortDown)] > 0
	}
	if a.portInfo().Active || !lost {
		t.Errorf("the link is down, but: %+v", a.counters())
	}
	b.poll(0, 1000, 20*time.Millisecond)
	shell(t, "ip link set "+dev+" up")
	t.Logf("traffic %v after the link came back; %+v", flow(t, a, b, qp, dst, 2*time.Second).Round(time.Millisecond), a.counters())
	if c := a.counters(); c.Events[string(eventPortUp)] == 0 {
		t.Errorf("no event of the link's return: %+v", c)
	}
}

// TestAddressGone removes the bridge's own address, and with it the GID that its address handles use.
func TestAddressGone(t *testing.T) {
	dev := needNetdev(t)
	a, b := newSide(t, Config{}), newSide(t, Config{})
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	flow(t, a, b, qp, dst, 5*time.Second)
	own := a.portInfo().GID.Addr().String()
	send := a.to(qp, dst, 0, porttest.SendGRH)
	shell(t, fmt.Sprintf("ip addr del %s/24 dev %s", own, dev))
	before := a.counters().SendDrops.Sum()
	for range 50 {
		send.Mbuf = a.alloc(t, []byte("from nowhere"))
		a.post(t, 0, send)
		time.Sleep(2 * time.Millisecond)
	}
	a.quiet(t)
	if a.counters().SendDrops.Sum() == before {
		t.Errorf("the source address is gone, but all was sent: %+v", a.counters())
	}
	b.poll(0, 1000, 20*time.Millisecond)
	shell(t, fmt.Sprintf("ip addr add %s/24 dev %s", own, dev))
	t.Logf("traffic %v after the address came back; %+v", flow(t, a, b, qp, dst, 2*time.Second).Round(time.Millisecond), a.counters())
}

// TestEvents calls the handler with the events that the test's device does not raise.
func TestEvents(t *testing.T) {
	var losses atomic.Int32
	a := newSide(t, Config{OnLoss: func(error) { losses.Add(1) }})
	b := newSide(t, Config{})
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	_, err := a.Join(context.Background(), ibside.Join{MGID: groupGID(7), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []eventKind{
		eventLID, eventPKey, eventSM, eventReregister, eventGID, eventPortUp, eventPortDown, eventSRQError, eventCQError, eventQPFatal,
		eventDeviceFatal,
	} {
		before := a.counters()
		a.handleEvent(event{Kind: kind, Handle: qp, Worker: 0})
		if n := a.counters().Events[string(kind)]; n != 1 {
			t.Errorf("%s counted %d times", kind, n)
		}
		if kind == eventQPFatal {
			if !until(5*time.Second, func() bool { return a.counters().Recovered > before.Recovered }, a) {
				t.Errorf("%s: nothing recovered: %+v", kind, a.counters())
			}
		}
		flow(t, a, b, qp, dst, 2*time.Second)
	}
	a.memberships.lost(groupGID(7), cmEvent{kind: "by the test"})
	if !until(5*time.Second, func() bool { return a.counters().Rejoined == 1 }, a) {
		t.Errorf("not joined again: %+v", a.counters())
	}
	send := porttest.Send{QP: qp, DGID: groupGID(7), HopLimit: 64, DestQP: ib.QPMulticast, QKey: groupQKey, Flags: porttest.SendGRH, Mbuf: a.alloc(t, []byte("x"))}
	a.post(t, 0, send)
	a.quiet(t)
	if got, _ := a.poll(0, 1, 5*time.Second); len(got) != 1 || !slices.Contains(a.groupQPNs(), got[0].QPN) {
		t.Errorf("after the rejoin: %+v, want one message on one of %v", got, a.groupQPNs())
	}
	if losses.Load() != 3 {
		t.Errorf("%d losses; want 3: of two queues and the device", losses.Load())
	}
}

// groupQPNs lists the queue pairs that receive groups.
func (s *side) groupQPNs() (all []ib.QPN) {
	s.qpTable.mu.Lock()
	defer s.qpTable.mu.Unlock()
	for _, q := range s.qps {
		if q.groups {
			all = append(all, q.qpn)
		}
	}
	return all
}
