// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

const (
	testQKey  = ib.QKey(0x11111111)
	groupQKey = ib.QKeyRDMAUDP
)

// to returns a send to a queue pair of another Port on the same device port: the device delivers to itself.
func (s *side) to(from uint32, dest ib.QPN, imm uint32, flags uint16) porttest.Send {
	return porttest.Send{
		QP: from, DGID: s.portInfo().GID, HopLimit: 64, DestQP: dest, QKey: testQKey, Imm: imm, Flags: flags,
	}
}

func TestUnicast(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{})
	aQP, aQPN := a.proxyQP(t, 0, testQKey)
	bQP, bQPN := b.proxyQP(t, 0, testQKey)
	type way struct {
		name     string
		from, to *side
		qp       uint32
		src, dst ib.QPN
	}
	for _, w := range []way{{"there", a, b, aQP, aQPN, bQPN}, {"back", b, a, bQP, bQPN, aQPN}} {
		for i, size := range []int{0, 1, 20, 40, 63, 64, 65, 1000, 1024, 2047, 4095, 4096} {
			for _, flags := range []uint16{porttest.SendGRH, porttest.SendGRH | porttest.SendImm} {
				t.Run(fmt.Sprintf("%s/%d/%d", w.name, size, flags), func(t *testing.T) {
					want, imm := pattern(size, i), uint32(0x01020304*i)
					s := w.from.to(w.qp, w.dst, imm, flags)
					s.TClass, s.Mbuf = 0x48, w.from.alloc(t, want)
					w.from.post(t, 0, s)
					if !until(5*time.Second, func() bool { return w.from.counters().Sent > 0 }, w.from) {
						t.Fatalf("not sent: %+v", w.from.counters())
					}
					checkOne(t, w.from, w.to, w.src, w.dst, want, flags&porttest.SendImm != 0, imm)
				})
			}
		}
	}
	if c := a.quiet(t); c.Sent != 24 || c.Inlined == 0 || c.AHsAsked != 1 {
		t.Errorf("counters %+v; want 24 sent, some inline, one address handle", c)
	}
}

// checkOne takes one message at to's first worker and checks all of its fields.
func checkOne(t *testing.T, from, to *side, src, dst ib.QPN, want []byte, hasImm bool, imm uint32) {
	t.Helper()
	got, all := to.poll(0, 1, 5*time.Second)
	if len(got) != 1 {
		t.Fatalf("nothing came; the sender %+v\nthe receiver %+v", from.quiet(t), to.counters())
	}
	r := got[0]
	if r.SrcQP != src || r.QPN != dst || r.Flags&porttest.RecvGRH == 0 || (r.Flags&porttest.RecvImm != 0) != hasImm || hasImm && r.Imm != imm {
		t.Errorf("received %+v, want from %v to %v, imm %x", r, src, dst, imm)
	}
	area, payload := all[0][:areaLen], all[0][areaLen:]
	if !bytes.Equal(payload, want) {
		t.Errorf("%d bytes came as %d: %.32x, want %.32x", len(want), len(payload), payload, want)
	}
	// The area's second half is the IPv4 header; the first is zero, though the buffer may have held another packet.
	own := from.portInfo().GID.Addr().As4()
	if !bytes.Equal(area[:20], make([]byte, 20)) || area[20] != 0x45 || area[21] != 0x48 || !bytes.Equal(area[32:36], own[:]) {
		t.Errorf("the 40-byte area is %x", area)
	}
}

// TestAwaitSent has a worker take no completions for a time: what it has posted is not sent before.
func TestAwaitSent(t *testing.T) {
	s := newSide(t, Config{})
	qp, qpn := s.proxyQP(t, 0, testQKey)
	sent := func(d time.Duration) error {
		ctx, end := context.WithTimeout(t.Context(), d)
		defer end()
		return s.AwaitSent(ctx)
	}
	for _, what := range []string{"its address handle is not there", "it is"} {
		if err := sent(time.Minute); err != nil {
			t.Fatal(err)
		}
		m := s.to(qp, qpn, 0, porttest.SendGRH)
		m.Mbuf = s.alloc(t, []byte(what))
		if n := porttest.Post(s.Pointer(0), []porttest.Send{m}); n != 1 {
			t.Fatal("post took nothing")
		}
		if err := sent(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: a message without a completion is sent: %v", what, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- sent(time.Minute) }()
		var err error
		if !until(time.Minute, func() bool {
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		}, s) || err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if c := s.counters(); c.Sent != c.Posted {
			t.Errorf("%s: %+v", what, c)
		}
		s.poll(0, 1, time.Minute)
	}
}

// TestMostReceives checks that a device that holds fewer receive buffers than the configuration wants gets as many as
// it holds.
func TestMostReceives(t *testing.T) {
	s := newSide(t, Config{Receives: maxReceives})
	most, err := s.dev.readLimits()
	if err != nil || most.receives < leastReceives || most.completions < leastReceives {
		t.Fatalf("the device's limits are %+v: %v", most, err)
	}
	if want := min(maxReceives, most.receives, most.completions); s.Info().Receives != want {
		t.Errorf("%d receive buffers, want %d of a device with %+v", s.Info().Receives, want, most)
	}
}

// TestChained posts bursts over several proxy QPs: one list a proxy QP and burst, nothing lost, everything in order.
func TestChained(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{})
	const proxyQPs, bursts, size = 3, 20, 64
	_, dst := b.proxyQP(t, 0, testQKey)
	var qps [proxyQPs]uint32
	next := map[ib.QPN]uint32{}
	for i := range qps {
		var qpn ib.QPN
		qps[i], qpn = a.proxyQP(t, 0, testQKey)
		next[qpn] = 0
	}
	warm := a.to(qps[0], dst, 0, porttest.SendGRH)
	warm.Mbuf = a.alloc(t, []byte("the address handle"))
	a.post(t, 0, warm)
	if got, _ := b.poll(0, 1, 100*time.Millisecond); len(got) != 0 { // held until the next free()
		t.Error("a message left before its address handle was there")
	}
	a.quiet(t)
	b.poll(0, 1, 5*time.Second)
	before := a.counters().Lists
	var seq [proxyQPs]uint32
	for range bursts {
		var burst []porttest.Send
		for i := range size {
			who := i % proxyQPs
			s := a.to(qps[who], dst, 0, porttest.SendGRH)
			s.Mbuf = a.alloc(t, binary.BigEndian.AppendUint32(nil, seq[who]))
			seq[who]++
			burst = append(burst, s)
		}
		a.post(t, 0, burst...)
		got, payloads := b.poll(0, size, 10*time.Second)
		if len(got) != size {
			t.Fatalf("%d of %d came", len(got), size)
		}
		for i, r := range got {
			if n := binary.BigEndian.Uint32(payloads[i][areaLen:]); n != next[r.SrcQP] {
				t.Fatalf("message %d of %v came when %d was due", n, r.SrcQP, next[r.SrcQP])
			}
			next[r.SrcQP]++
		}
	}
	if lists := a.quiet(t).Lists - before; lists != bursts*proxyQPs {
		t.Errorf("%d lists, want %d", lists, bursts*proxyQPs)
	}
}

// TestDrops provokes every drop that a device at hand can show.
func TestDrops(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{Workers: 2})
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 1, testQKey)
	other, _ := b.proxyQP(t, 1, testQKey)
	gone, _ := a.proxyQP(t, 0, testQKey)
	if err := a.DestroyProxyQP(gone); err != nil {
		t.Fatal(err)
	}
	if err := a.DestroyProxyQP(gone); err == nil {
		t.Error("destroyed a proxy QP twice")
	}
	silent := a.portInfo().GID
	silent[15] ^= 0x5a // an address of the same subnet that nobody has
	ok := a.to(qp, dst, 0, porttest.SendGRH)
	change := func(f func(*porttest.Send)) porttest.Send {
		s := ok
		f(&s)
		return s
	}
	for _, c := range []struct {
		name string
		send porttest.Send
		drop string
	}{
		{"sent", ok, ""},
		{"no such handle", change(func(s *porttest.Send) { s.QP = 99 }), "no_qp"},
		{"destroyed", change(func(s *porttest.Send) { s.QP = gone }), "no_qp"},
		{"another port's worker", change(func(s *porttest.Send) { s.QP = other }), "no_qp"},
		{"too long", change(func(s *porttest.Send) { s.Mbuf = a.alloc(t, make([]byte, 4097)) }), "mtu"},
		{"foreign memory", change(func(s *porttest.Send) { s.Mbuf = b.alloc(t, []byte("x")) }), "not_registered"},
		{"silent peer", change(func(s *porttest.Send) { s.DGID = silent }), "ah_failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := a.quiet(t)
			if c.send.Mbuf.Pointer() == nil {
				c.send.Mbuf = a.alloc(t, []byte("a message"))
			}
			a.post(t, 0, c.send)
			after, want := a.quiet(t), maps.Clone(before.SendDrops)
			if c.drop != "" {
				want[c.drop]++
			}
			if after.Posted != before.Posted+1 || !maps.Equal(after.SendDrops, want) {
				t.Errorf("drops %v, want %v", after.SendDrops, want)
			}
		})
	}
}

// TestSilentPeer sends to a peer that does not answer, and to one that does: the second does not wait for the first.
func TestSilentPeer(t *testing.T) {
	a, b := newSide(t, Config{}), newSide(t, Config{})
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	bad, good := a.to(qp, dst, 0, porttest.SendGRH), a.to(qp, dst, 0, porttest.SendGRH)
	bad.DGID[15] ^= 0x5b
	bad.Mbuf, good.Mbuf = a.alloc(t, []byte("lost")), a.alloc(t, []byte("found"))
	start := time.Now()
	a.post(t, 0, bad, good)
	until(500*time.Millisecond, func() bool { return a.counters().Sent == 1 }, a)
	got, payload := b.poll(0, 1, 500*time.Millisecond)
	if len(got) != 1 || string(payload[0][areaLen:]) != "found" {
		t.Errorf("after %v %d messages came: %q", time.Since(start), len(got), payload)
	}
	if c := a.quiet(t); c.SendDrops["ah_failed"] != 1 || c.AHsFailed == 0 {
		t.Errorf("counters %+v; want one ah_failed", c)
	}
}

func TestProxyQPs(t *testing.T) {
	const count, destroyed = 10000, 500 // the others end with the port; a virtual machine with one CPU is slow at each
	a := newSide(t, Config{ProxyQPs: count, SendDepth: 16, Sends: 1024})
	start := time.Now()
	var handles []uint32
	for range count {
		h, _ := a.proxyQP(t, 0, testQKey)
		handles = append(handles, h)
	}
	created := time.Since(start)
	if _, _, err := a.CreateProxyQP(0, a.cfg.PKey, testQKey); err == nil {
		t.Error("one more than there may be")
	}
	slices.Sort(handles)
	if n := len(slices.Compact(handles)); n != count {
		t.Errorf("%d different handles, want %d", n, count)
	}
	var stop atomic.Bool
	var worker sync.WaitGroup
	worker.Go(func() { // destroying each waits until the worker has polled
		for !stop.Load() {
			porttest.Poll(a.Pointer(0), 64) // nobody sends
			runtime.Gosched()
		}
	})
	for _, h := range handles[:destroyed] {
		if err := a.DestroyProxyQP(h); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	worker.Wait()
	if n := a.counters().ProxyQPs; n != count-destroyed {
		t.Errorf("%d are left, want %d", n, count-destroyed)
	}
	t.Logf("%d proxy QPs created in %v, %d destroyed in %v", count, created.Round(time.Millisecond), destroyed, (time.Since(start) - created).Round(time.Millisecond))
}
