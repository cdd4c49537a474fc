// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// recordedID is a fake of rdma_cm's side of a request, and records the calls.
type recordedID struct {
	err      error
	mu       sync.Mutex
	told     []string
	destroys int
}

func (r *recordedID) accept(qpn ib.QPN, private []byte) error {
	return r.tell(fmt.Sprintf("accept %v %s", qpn, private))
}

func (r *recordedID) reject(private []byte) error { return r.tell(fmt.Sprintf("reject %s", private)) }

func (r *recordedID) tell(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.destroys > 0 {
		return errors.New("told after its end")
	}
	r.told = append(r.told, what)
	return r.err
}

func (r *recordedID) destroy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.destroys++
}

// state returns the recorded calls, and how often the id was destroyed.
func (r *recordedID) state() (string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.told), r.destroys
}

// listening returns a listener that does not exist in the kernel. Its requests come from the function request.
func listening(limits sidrLimits) (l *listener, requests chan ibside.ServiceRequest) {
	d := newTestPort(Config{})
	requests = make(chan ibside.ServiceRequest, 100)
	return &listener{sidr: d.sidr, limits: limits, handle: func(r ibside.ServiceRequest) { requests <- r }, id: &recordedID{}, pending: map[*pending]bool{}}, requests
}

// answersOf returns the counters of a listener's port.
func answersOf(l *listener) counters {
	m := l.sidr.counts
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.sum
	c.Answers = copied(c.Answers)
	return c
}

func TestAnswers(t *testing.T) {
	long := make([]byte, 137)
	for _, c := range []struct {
		name   string
		kernel error
		answer func(ibside.ServiceRequest) error
		fails  bool
		told   string
		count  string
	}{
		{"accepted", nil, func(r ibside.ServiceRequest) error {
			return r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP, Private: []byte("hi")})
		}, false, "[accept 0x000007 hi]", "accepted"},
		{"rejected", nil, func(r ibside.ServiceRequest) error { return r.Reject(2, []byte("no")) }, false, "[reject no]", "rejected"},
		{"another Q_Key", nil, func(r ibside.ServiceRequest) error { return r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: 0x11111111}) }, true, "[]", "failed"},
		{"no QPN", nil, func(r ibside.ServiceRequest) error {
			return r.Answer(ibside.ServiceAnswer{QPN: 0, QKey: ib.QKeyRDMAUDP})
		}, true, "[]", "failed"},
		{"a QPN of 25 bits", nil, func(r ibside.ServiceRequest) error {
			return r.Answer(ibside.ServiceAnswer{QPN: 1 << 24, QKey: ib.QKeyRDMAUDP})
		}, true, "[]", "failed"},
		{"accepted with too much", nil, func(r ibside.ServiceRequest) error {
			return r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP, Private: long})
		}, true, "[]", "failed"},
		{"rejected with too much", nil, func(r ibside.ServiceRequest) error { return r.Reject(2, long) }, true, "[]", "failed"},
		{"the kernel says no", syscall.EINVAL, func(r ibside.ServiceRequest) error {
			return r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP})
		}, true, "[accept 0x000007 ]", "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, requests := listening(usualLimits)
			id := &recordedID{err: c.kernel}
			l.take(ibside.ServiceRequest{Port: 7}, id, true)
			r := <-requests
			if err := c.answer(r); (err != nil) != c.fails || c.kernel != nil && !errors.Is(err, c.kernel) {
				t.Errorf("error %v, want %v", err, c.fails)
			}
			if err := r.Answer(ibside.ServiceAnswer{QPN: 8, QKey: ib.QKeyRDMAUDP}); !errors.Is(err, errAnswered) {
				t.Errorf("answered twice: %v", err)
			}
			l.Close()
			checkRequest(t, l, id, c.told, map[string]uint64{c.count: 1})
		})
	}
}

func checkRequest(t *testing.T, l *listener, id *recordedID, told string, answers counts) {
	t.Helper()
	if got, n := id.state(); got != told || n != 1 {
		t.Errorf("rdma_cm was told %s, %d destroyed; want %s, 1", got, n, told)
	}
	if c := answersOf(l); !maps.Equal(c.Answers, answers) || c.Requests != answers.Sum() {
		t.Errorf("%d requests, answers %v, want %v", c.Requests, c.Answers, answers)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Run("timed out", func(t *testing.T) {
		l, requests := listening(sidrLimits{1, 10 * time.Millisecond})
		id := &recordedID{}
		l.take(ibside.ServiceRequest{}, id, true)
		r := <-requests
		for end := time.Now().Add(5 * time.Second); answersOf(l).Answers.Sum() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if err := r.Reject(2, nil); !errors.Is(err, errAnswered) {
			t.Errorf("answered too late: %v", err)
		}
		checkRequest(t, l, id, "[]", map[string]uint64{"timed_out": 1})
	})
	t.Run("closed", func(t *testing.T) {
		l, requests := listening(usualLimits)
		id, late := &recordedID{}, &recordedID{}
		l.take(ibside.ServiceRequest{}, id, true)
		r := <-requests
		l.Close()
		l.Close()
		if err := r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP}); !errors.Is(err, errAnswered) {
			t.Errorf("answered after the end: %v", err)
		}
		l.take(ibside.ServiceRequest{}, late, true)
		checkRequest(t, l, id, "[]", map[string]uint64{"closed": 2})
		checkRequest(t, l, late, "[]", map[string]uint64{"closed": 2})
		checkRequest(t, l, l.id.(*recordedID), "[]", map[string]uint64{"closed": 2})
	})
	t.Run("another device", func(t *testing.T) {
		l, requests := listening(usualLimits)
		id := &recordedID{}
		l.take(ibside.ServiceRequest{}, id, false)
		checkRequest(t, l, id, "[]", map[string]uint64{"other_device": 1})
		if len(requests) != 0 {
			t.Error("it was handled")
		}
	})
}

// TestFull has more requests than may wait, then room again.
func TestFull(t *testing.T) {
	const limit = 4
	l, requests := listening(sidrLimits{limit, time.Minute})
	ids := make([]recordedID, limit+3)
	for i := range ids {
		l.take(ibside.ServiceRequest{Port: uint16(i)}, &ids[i], true)
	}
	for i := range ids {
		if _, n := ids[i].state(); (n == 1) != (i >= limit) {
			t.Errorf("request %d: %d destroyed", i, n)
		}
	}
	if err := (<-requests).Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP}); err != nil {
		t.Error(err)
	}
	l.take(ibside.ServiceRequest{}, &recordedID{}, true)
	l.Close()
	if c := answersOf(l); c.Answers["full"] != 3 || c.Answers["accepted"] != 1 || c.Answers["closed"] != limit || c.Requests != limit+4 {
		t.Errorf("%d requests, answers %v", c.Requests, c.Answers)
	}
}

// TestOneAnswer has many goroutines answer one request, while its time runs out and the listener closes.
func TestOneAnswer(t *testing.T) {
	for range 200 {
		l, requests := listening(sidrLimits{1, time.Millisecond})
		id := &recordedID{}
		l.take(ibside.ServiceRequest{}, id, true)
		r := <-requests
		var all sync.WaitGroup
		var ok atomic.Int32
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Microsecond)
				if r.Answer(ibside.ServiceAnswer{QPN: 7, QKey: ib.QKeyRDMAUDP}) == nil {
					ok.Add(1)
				}
				if i == 7 {
					l.Close()
				}
			})
		}
		all.Wait()
		told, n := id.state()
		if c := answersOf(l); n != 1 || c.Answers.Sum() != 1 || ok.Load() != int32(c.Answers["accepted"]) || (told != "[]") != (ok.Load() == 1) {
			t.Fatalf("%d accepted, told %s, %d destroyed, answers %v", ok.Load(), told, n, c.Answers)
		}
	}
}

func TestConnectFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		event  connectEvent
		cause  connectCause // "": goes on
		status uint8
	}{
		{"nobody listens", connectEvent{step: stepRejected, status: 1}, connectRejected, ib.SIDRStatusUnsupported},
		{"rejected", connectEvent{step: stepRejected, status: 2}, connectRejected, ib.SIDRStatusRejected},
		{"no answer", connectEvent{step: stepRejected, status: -int(syscall.ETIMEDOUT)}, connectTimedOut, 0},
		{"the kernel fails", connectEvent{step: stepRejected, status: -int(syscall.ENOMEM)}, connectFailed, 0},
		{"no ARP answer", connectEvent{step: stepNoPeer, status: -int(syscall.ETIMEDOUT)}, connectUnreachable, 0},
		{"device removed", connectEvent{step: stepNoDevice}, connectClosed, 0},
		{"an address changes", connectEvent{step: stepOther}, "", 0},
		{"late", connectEvent{step: stepAddress}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event.Private = []byte("why")
			got := c.event.failure()
			switch {
			case (got == nil) != (c.cause == ""):
				t.Errorf("%v, want %q", got, c.cause)
			case got != nil && (got.Cause != c.cause || got.Status != c.status || (string(got.Private) == "why") != (c.cause == connectRejected)):
				t.Errorf("%+v, want %s, status %d", got, c.cause, c.status)
			}
		})
	}
}

func TestConnectEnds(t *testing.T) {
	deadline, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	named, cancelNamed := context.WithTimeoutCause(t.Context(), time.Nanosecond, errors.New("the request's time is up"))
	defer cancelNamed()
	canceled, stop := context.WithCancel(t.Context())
	stop()
	d := newTestPort(Config{})
	for range maxConnects { // no place is free: only ctx ends the wait
		d.sidr.free <- struct{}{}
	}
	ok := ibside.ServiceConnect{To: netip.MustParseAddr("10.8.0.9"), Port: 7}
	try := func(name string, ctx context.Context, r ibside.ServiceConnect, cause connectCause) {
		t.Helper()
		_, err := d.sidr.connectOnce(ctx, r)
		var e *connectError
		if !errors.As(err, &e) || e.Cause != cause || e.To != netip.AddrPortFrom(r.To, r.Port) {
			t.Errorf("%s: %v, want %s", name, err, cause)
		}
	}
	try("deadline", deadline, ok, connectTimedOut)
	try("deadline with a cause", named, ok, connectTimedOut)
	try("canceled", canceled, ok, connectCanceled)
	try("no address", t.Context(), ibside.ServiceConnect{Port: 7}, connectFailed)
	try("no port", t.Context(), ibside.ServiceConnect{To: ok.To}, connectFailed)
	try("too much private data", t.Context(), ibside.ServiceConnect{To: ok.To, Port: 7, Private: make([]byte, 181)}, connectFailed)
	closing, closed := context.WithCancel(context.Background())
	closed()
	d.sidr.ctx = closing
	try("the port closes", t.Context(), ok, connectClosed)
	d.sidr.close()
	try("the port is closed", t.Context(), ok, connectClosed)
	if _, err := d.sidr.listen(7, usualLimits, func(ibside.ServiceRequest) {}); !errors.Is(err, errClosed) {
		t.Errorf("Listen after the end: %v", err)
	}
	if _, err := d.sidr.listen(0, usualLimits, func(ibside.ServiceRequest) {}); err == nil {
		t.Error("listened on port 0")
	}
	want := counts{"timed_out": 2, "canceled": 1, "failed": 3, "closed": 2}
	if c := d.counters().Connects; !maps.Equal(c, want) {
		t.Errorf("counted %v, want %v", c, want)
	}
}

func TestConnectFrom(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to string
		gids     []GIDEntry
		ethernet bool
		want     string // "": none
	}{
		{"own", "", "10.8.0.200", roceGIDs, true, "10.8.0.3"},
		{"given", "10.9.0.3", "10.8.0.200", roceGIDs, true, "10.9.0.3"},
		{"IPv6", "", "fd08::200", roceGIDs, true, "fd08::3"},
		{"link-local", "", "fe80::9%eth7", roceGIDs, true, "fe80::5054:ff:fe00:1"},
		{"nothing fits", "", "10.8.0.200", roceGIDs[4:6], true, ""},
		{"InfiniBand: the routes choose", "", "10.8.0.200", infiniBandGIDs, false, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ibside.ServiceConnect{To: netip.MustParseAddr(c.to)}
			if c.from != "" {
				r.From = netip.MustParseAddr(c.from)
			}
			got, err := connectFrom(&PortInfo{GIDs: c.gids, Info: ibside.Info{Ethernet: c.ethernet}, GID: gid("10.8.0.3")}, r)
			if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
				t.Errorf("%v, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestScopeOf(t *testing.T) {
	for _, c := range []struct {
		addr string
		gids []GIDEntry
		want uint32
	}{
		{"10.8.0.9", roceGIDs, 0}, {"169.254.0.9", roceGIDs, 0}, {"fd08::9", roceGIDs, 0},
		{"fe80::9", roceGIDs, 2}, {"fe80::9%7", roceGIDs, 7}, {"fe80::9%lo", roceGIDs, 1}, {"fe80::9%nosuch", roceGIDs, 2},
		{"fe80::9", infiniBandGIDs, 0},
	} {
		if got := scopeOf(c.gids, netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %d, want %d", c.addr, got, c.want)
		}
	}
}
