// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

const testPort = 7174

// inKernel counts the rdma_cm_ids on the machine's devices, of any process, and lists them.
func inKernel(t *testing.T) (int, string) {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show", "cm_id").CombinedOutput()
	if err != nil {
		t.Errorf("rdma: %v: %s", err, out)
	}
	return strings.Count(string(out), "\n"), string(out)
}

// leavesNothing fails the test when there are more rdma_cm_ids, once all its ports are closed, than there were before.
func leavesNothing(t *testing.T) {
	t.Helper()
	needDevice(t)
	before, _ := inKernel(t)
	t.Cleanup(func() {
		if n, all := inKernel(t); n > before {
			t.Errorf("%d ids in the kernel, %d before:\n%s", n, before, all)
		}
	})
}

// idsLeft returns how many ids a port's channel still has.
func (s *side) idsLeft() int {
	s.cm.mu.Lock()
	defer s.cm.mu.Unlock()
	return len(s.cm.waiting)
}

// counted waits until so many requests are counted with this answer: the asker gets the answer before it is counted.
func (s *side) counted(answer string, n uint64) {
	until(5*time.Second, func() bool { return s.counters().Answers[answer] >= n })
}

// ownAddresses returns the port's addresses, one of each kind.
func (s *side) ownAddresses(t *testing.T) map[string]netip.Addr {
	t.Helper()
	found := map[string]netip.Addr{}
	for _, g := range usable(s.portInfo().GIDs, true) {
		a, kind := g.GID.Addr(), "IPv6"
		switch {
		case a.Is4():
			kind = "IPv4"
		case a.IsLinkLocalUnicast():
			kind = "link-local"
		}
		found[kind] = a
	}
	if len(found) != 3 {
		t.Fatalf("the port has %v; give it an IPv4, an IPv6 and a link-local address", found)
	}
	return found
}

func (s *side) mustListen(t *testing.T, limits sidrLimits, h func(ibside.ServiceRequest)) *listener {
	t.Helper()
	l, err := s.sidr.listen(testPort, limits, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (s *side) ask(ctx context.Context, to netip.Addr, private string) (ibside.ServiceAnswer, error) {
	return s.sidr.connectOnce(ctx, ibside.ServiceConnect{To: to, Port: testPort, Private: []byte(private)})
}

// TestConnect finds a proxy QP of another port by each kind of address, and sends to it.
func TestConnect(t *testing.T) {
	leavesNothing(t)
	a, b := newSide(t, Config{}), newSide(t, Config{})
	from, _ := a.proxyQP(t, 0, testQKey)
	_, qpn := b.proxyQP(t, 0, ib.QKeyRDMAUDP)
	requests := make(chan ibside.ServiceRequest, 10)
	before, _ := inKernel(t)
	b.mustListen(t, usualLimits, func(r ibside.ServiceRequest) {
		if err := r.Answer(ibside.ServiceAnswer{
			QPN: qpn, QKey: ib.QKeyRDMAUDP, Private: append([]byte("you are "), bytes.TrimRight(r.Private, "\x00")...),
		}); err != nil {
			t.Error(err)
		}
		requests <- r
	})
	if n, all := inKernel(t); n <= before {
		t.Errorf("%d ids in the kernel, %d before we listened: leavesNothing cannot notice a leak:\n%s", n, before, all)
	}
	addresses := a.ownAddresses(t)
	for kind, own := range addresses {
		for _, given := range []netip.Addr{{}, own} {
			t.Run(fmt.Sprintf("%s from %v", kind, given), func(t *testing.T) {
				c, err := a.sidr.connectOnce(t.Context(), ibside.ServiceConnect{From: given, To: own, Port: testPort, Private: []byte("somebody")})
				if err != nil {
					t.Fatal(err)
				}
				if r := <-requests; r.From.WithZone("") != own || r.To.WithZone("") != own || r.Port != testPort || r.PKey != 0 || len(r.Private) != maxAskPrivate {
					t.Errorf("the request was %+v", r)
				}
				if c.QPN != qpn || c.QKey != ib.QKeyRDMAUDP || !bytes.HasPrefix(c.Private, []byte("you are somebody\x00")) || len(c.Private) != maxAnswerPrivate {
					t.Errorf("the answer was %+v", c)
				}
				s := porttest.Send{QP: from, DGID: ib.GIDFromAddr(own), HopLimit: 64, DestQP: c.QPN, QKey: c.QKey, Flags: porttest.SendGRH, Mbuf: a.alloc(t, []byte("found you"))}
				sent := a.counters().Sent
				a.post(t, 0, s)
				until(5*time.Second, func() bool { return a.counters().Sent > sent }, a)
				if got, payload := b.poll(0, 1, 5*time.Second); len(got) != 1 || got[0].QPN != qpn || string(payload[0][areaLen:]) != "found you" {
					t.Errorf("%+v %q came", got, payload)
				}
			})
		}
	}
	want := uint64(2 * len(addresses))
	if c := a.counters(); !maps.Equal(c.Connects, counts{"ok": want}) || a.idsLeft() != 0 {
		t.Errorf("connects %v, %d ids left", c.Connects, a.idsLeft())
	}
	b.counted(requestAccepted, want)
	if c := b.counters(); c.Requests != want || !maps.Equal(c.Answers, counts{"accepted": want}) || b.idsLeft() != 1 {
		t.Errorf("%d requests, answers %v, %d ids left", c.Requests, c.Answers, b.idsLeft())
	}
}

// TestConnectRejected provokes each way to fail.
func TestConnectRejected(t *testing.T) {
	leavesNothing(t)
	a, b := newSide(t, Config{}), newSide(t, Config{})
	own := a.ownAddresses(t)["IPv4"]
	silent := ib.GIDFromAddr(own)
	silent[15] ^= 0x5c // an address of the same subnet that nobody has
	const soon = 300 * time.Millisecond
	patient := func() (context.Context, func()) { return t.Context(), func() {} }
	canceled := func() (context.Context, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(soon, cancel)
		return ctx, cancel
	}
	deadline := func() (context.Context, func()) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		return ctx, cancel
	}
	rejecting := func(r ibside.ServiceRequest) { _ = r.Reject(ib.SIDRStatusRejected, []byte("go away")) }
	silently := func(ibside.ServiceRequest) {}
	const within = 500 * time.Millisecond
	for _, c := range []struct {
		name   string
		handle func(ibside.ServiceRequest) // nil: there is no listener
		limits sidrLimits
		ctx    func() (context.Context, func())
		req    ibside.ServiceConnect
		want   connectError
		answer string
	}{
		{"nobody listens", nil, usualLimits, patient, ibside.ServiceConnect{To: own}, connectError{Cause: connectRejected, Status: ib.SIDRStatusUnsupported}, ""},
		{"rejected", rejecting, usualLimits, patient, ibside.ServiceConnect{To: own},
			connectError{Cause: connectRejected, Status: ib.SIDRStatusRejected, Private: []byte("go away")}, requestRejected},
		{"another Q_Key", func(r ibside.ServiceRequest) { _ = r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: testQKey}) }, usualLimits, patient, ibside.ServiceConnect{To: own},
			connectError{Cause: connectRejected, Status: ib.SIDRStatusRejected}, requestFailed},
		{"never answered", silently, sidrLimits{1, within}, patient, ibside.ServiceConnect{To: own},
			connectError{Cause: connectRejected, Status: ib.SIDRStatusRejected}, requestTimedOut},
		{"deadline", silently, sidrLimits{1, time.Second}, deadline, ibside.ServiceConnect{To: own}, connectError{Cause: connectTimedOut}, requestTimedOut},
		{"canceled", silently, sidrLimits{1, time.Second}, canceled, ibside.ServiceConnect{To: own}, connectError{Cause: connectCanceled}, requestTimedOut},
		{"nobody has the address", silently, usualLimits, patient, ibside.ServiceConnect{To: silent.Addr()}, connectError{Cause: connectUnreachable}, ""},
		{"not our address", silently, usualLimits, patient, ibside.ServiceConnect{From: silent.Addr(), To: own}, connectError{Cause: connectNoAddress}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := b.counters().Answers[c.answer]
			if c.handle != nil {
				l := b.mustListen(t, c.limits, c.handle)
				defer l.Close()
			}
			c.req.Port = testPort
			ctx, cancel := c.ctx()
			defer cancel()
			a.rejected(t, ctx, c.req, c.want)
			if c.answer != "" && !until(5*time.Second, func() bool { return b.counters().Answers[c.answer] == before+1 }) {
				t.Errorf("answers %v, want one more %s", b.counters().Answers, c.answer)
			}
		})
	}
	if a.idsLeft() != 0 || b.idsLeft() != 0 {
		t.Errorf("%d and %d ids left", a.idsLeft(), b.idsLeft())
	}
}

func (s *side) rejected(t *testing.T, ctx context.Context, r ibside.ServiceConnect, want connectError) {
	t.Helper()
	start := time.Now()
	_, err := s.sidr.connectOnce(ctx, r)
	var e *connectError
	if !errors.As(err, &e) || e.Cause != want.Cause || e.Status != want.Status || !bytes.HasPrefix(e.Private, want.Private) {
		t.Fatalf("%v (%+v), want %+v", err, e, want)
	}
	t.Logf("after %v: %v", time.Since(start).Round(time.Millisecond), err)
}

// TestManyConnects connects two hundred at once, each to a queue pair of its own.
func TestManyConnects(t *testing.T) {
	leavesNothing(t)
	const count = 200
	a, b := newSide(t, Config{}), newSide(t, Config{})
	b.mustListen(t, usualLimits, func(r ibside.ServiceRequest) {
		if err := r.Answer(ibside.ServiceAnswer{QPN: ib.QPN(0x1000 + int(r.Private[0])), QKey: ib.QKeyRDMAUDP, Private: r.Private[:1]}); err != nil {
			t.Error(err)
		}
	})
	addresses := slices.Collect(maps.Values(a.ownAddresses(t)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	start := time.Now()
	for i := range count {
		all.Go(func() {
			c, err := a.ask(ctx, addresses[i%len(addresses)], string([]byte{byte(i)}))
			if err != nil || c.QPN != ib.QPN(0x1000+i) || c.Private[0] != byte(i) {
				t.Errorf("connection %d: %+v, %v", i, c, err)
			}
		})
	}
	all.Wait()
	t.Logf("%d connections in %v", count, time.Since(start).Round(time.Millisecond))
	b.counted(requestAccepted, count)
	if c := b.counters(); c.Requests != count || c.Answers["accepted"] != count || a.idsLeft() != 0 || b.idsLeft() != 1 {
		t.Errorf("%d requests, answers %v, ids left %d and %d", c.Requests, c.Answers, a.idsLeft(), b.idsLeft())
	}
}

// TestListeners opens and closes while requests come: more than may wait, none to a closed listener, and a port that
// closes with all under way.
func TestListeners(t *testing.T) {
	leavesNothing(t)
	const limit, count = 4, 20
	a, b := newSide(t, Config{}), newSide(t, Config{})
	own := a.ownAddresses(t)["IPv4"]
	l := b.mustListen(t, sidrLimits{limit, time.Minute}, func(ibside.ServiceRequest) {})
	if _, err := b.sidr.listen(testPort, usualLimits, func(ibside.ServiceRequest) {}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("listening twice: %v", err)
	}
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			_, err := a.ask(t.Context(), own, "")
			var e *connectError
			if !errors.As(err, &e) || e.Cause != connectRejected || e.Status != ib.SIDRStatusRejected {
				t.Error(err)
			}
		})
	}
	full := func() bool { return b.counters().Answers["full"] == count-limit }
	if !until(30*time.Second, full) {
		t.Errorf("answers %v, want %d full", b.counters().Answers, count-limit)
	}
	l.Close()
	all.Wait()
	if c := b.counters(); c.Requests != count || !maps.Equal(c.Answers, counts{"full": count - limit, "closed": limit}) {
		t.Errorf("%d requests, answers %v", c.Requests, c.Answers)
	}
	b.mustListen(t, usualLimits, func(r ibside.ServiceRequest) { _ = r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP}) })
	if _, err := a.ask(t.Context(), own, ""); err != nil {
		t.Error("listening again: ", err)
	}
	closing := newSide(t, Config{})
	closedCause := make(chan error, count)
	silent := ib.GIDFromAddr(own)
	silent[15] ^= 0x5d
	for range count {
		go func() {
			_, err := closing.ask(context.Background(), silent.Addr(), "")
			closedCause <- err
		}()
	}
	until(5*time.Second, func() bool { return closing.idsLeft() == count })
	start := time.Now()
	if err := closing.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(start).Round(time.Millisecond))
	for range count {
		var e *connectError
		if err := <-closedCause; !errors.As(err, &e) || e.Cause != connectClosed {
			t.Errorf("a connection under way as the port closes: %v", err)
		}
	}
}

// TestListenerStays takes addresses and the link away under a listener, which is bound to neither.
func TestListenerStays(t *testing.T) {
	dev := needNetdev(t)
	leavesNothing(t)
	a, b := newSide(t, Config{}), newSide(t, Config{})
	b.mustListen(t, usualLimits, func(r ibside.ServiceRequest) { _ = r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP}) })
	own := a.ownAddresses(t)
	connects := func(to netip.Addr) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := a.ask(ctx, to, "")
		return err
	}
	later := ib.GIDFromAddr(own["IPv4"])
	later[15] ^= 0x5e
	alias := later.Addr()
	shell(t, fmt.Sprintf("ip addr add %v/24 dev %s", alias, dev))
	until(5*time.Second, func() bool {
		return slices.ContainsFunc(a.portInfo().GIDs, func(g GIDEntry) bool { return g.GID == later })
	})
	if err := connects(alias); err != nil {
		t.Error("an address that came later: ", err)
	}
	shell(t, fmt.Sprintf("ip addr del %v/24 dev %s", alias, dev))
	var e *connectError
	if err := connects(alias); !errors.As(err, &e) || e.Cause != connectUnreachable {
		t.Errorf("it is gone again, but: %v", err)
	}
	defer func() {
		shell(t, fmt.Sprintf("ip link set %s up; ip addr add %v/64 dev %s || true", dev, own["IPv6"], dev))
	}()
	shell(t, "ip link set "+dev+" down")
	if err := connects(own["IPv4"]); err == nil {
		t.Error("connected though the link is down")
	} else {
		t.Log("the link is down: ", err)
	}
	shell(t, "ip link set "+dev+" up")
	until(5*time.Second, func() bool { return a.portInfo().Active })
	if err := connects(own["IPv4"]); err != nil {
		t.Error("the link is up again: ", err)
	}
}
