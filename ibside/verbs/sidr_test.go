// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// recordedID stands in for rdma_cm's side of a request, and writes down what it is told.
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

// state returns what has been told, and how often the id was destroyed.
func (r *recordedID) state() (string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.told), r.destroys
}

// listening returns a listener that no kernel knows of. What it hears comes from requests.
func listening(limits sidrLimits) (l *Listener, requests chan Request) {
	d := &Door{sidr: newSIDRPorts(), log: slog.New(slog.DiscardHandler)}
	requests = make(chan Request, 100)
	return &Listener{d: d, limits: limits, handle: func(r Request) { requests <- r }, id: &recordedID{}, pending: map[*pending]bool{}}, requests
}

func TestAnswers(t *testing.T) {
	long := make([]byte, 137)
	for _, c := range []struct {
		name   string
		kernel error
		answer func(Request) error
		fails  bool
		told   string
		count  string
	}{
		{"accepted", nil, func(r Request) error { return r.Accept(7, ib.QKeyRDMAUDP, []byte("hi")) }, false, "[accept 0x000007 hi]", "accepted"},
		{"rejected", nil, func(r Request) error { return r.Reject("no such host", []byte("no")) }, false, "[reject no]", "rejected"},
		{"another Q_Key", nil, func(r Request) error { return r.Accept(7, 0x11111111, nil) }, true, "[]", "failed"},
		{"no QPN", nil, func(r Request) error { return r.Accept(0, ib.QKeyRDMAUDP, nil) }, true, "[]", "failed"},
		{"a QPN of 25 bits", nil, func(r Request) error { return r.Accept(1<<24, ib.QKeyRDMAUDP, nil) }, true, "[]", "failed"},
		{"accepted with too much", nil, func(r Request) error { return r.Accept(7, ib.QKeyRDMAUDP, long) }, true, "[]", "failed"},
		{"rejected with too much", nil, func(r Request) error { return r.Reject("", long) }, true, "[]", "failed"},
		{"the kernel says no", syscall.EINVAL, func(r Request) error { return r.Accept(7, ib.QKeyRDMAUDP, nil) }, true, "[accept 0x000007 ]", "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, requests := listening(usualLimits)
			id := &recordedID{err: c.kernel}
			l.take(Request{Port: 7}, id, true)
			r := <-requests
			if err := c.answer(r); (err != nil) != c.fails || c.kernel != nil && !errors.Is(err, c.kernel) {
				t.Errorf("error %v, want %v", err, c.fails)
			}
			if err := r.Accept(8, ib.QKeyRDMAUDP, nil); !errors.Is(err, errAnswered) {
				t.Errorf("answered twice: %v", err)
			}
			l.Close()
			checkRequest(t, l, id, c.told, map[string]uint64{c.count: 1})
		})
	}
}

func checkRequest(t *testing.T, l *Listener, id *recordedID, told string, answers Counts) {
	t.Helper()
	if got, n := id.state(); got != told || n != 1 {
		t.Errorf("rdma_cm was told %s, %d destroyed; want %s, 1", got, n, told)
	}
	if c := l.d.Counters(); !maps.Equal(c.Answers, answers) || c.Requests != answers.Sum() {
		t.Errorf("%d requests, answers %v, want %v", c.Requests, c.Answers, answers)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Run("timed out", func(t *testing.T) {
		l, requests := listening(sidrLimits{1, 10 * time.Millisecond})
		id := &recordedID{}
		l.take(Request{}, id, true)
		r := <-requests
		for end := time.Now().Add(5 * time.Second); l.d.Counters().Answers.Sum() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if err := r.Reject("", nil); !errors.Is(err, errAnswered) {
			t.Errorf("answered too late: %v", err)
		}
		checkRequest(t, l, id, "[]", map[string]uint64{"timed_out": 1})
	})
	t.Run("closed", func(t *testing.T) {
		l, requests := listening(usualLimits)
		id, late := &recordedID{}, &recordedID{}
		l.take(Request{}, id, true)
		r := <-requests
		l.Close()
		l.Close()
		if err := r.Accept(7, ib.QKeyRDMAUDP, nil); !errors.Is(err, errAnswered) {
			t.Errorf("answered after the end: %v", err)
		}
		l.take(Request{}, late, true)
		checkRequest(t, l, id, "[]", map[string]uint64{"closed": 2})
		checkRequest(t, l, late, "[]", map[string]uint64{"closed": 2})
		checkRequest(t, l, l.id.(*recordedID), "[]", map[string]uint64{"closed": 2})
	})
	t.Run("another device", func(t *testing.T) {
		l, requests := listening(usualLimits)
		id := &recordedID{}
		l.take(Request{}, id, false)
		checkRequest(t, l, id, "[]", map[string]uint64{"other_device": 1})
		if len(requests) != 0 {
			t.Error("it was handled")
		}
	})
}

// TestFull has more requests wait than may, then room again.
func TestFull(t *testing.T) {
	const limit = 4
	l, requests := listening(sidrLimits{limit, time.Minute})
	ids := make([]recordedID, limit+3)
	for i := range ids {
		l.take(Request{Port: uint16(i)}, &ids[i], true)
	}
	for i := range ids {
		if _, n := ids[i].state(); (n == 1) != (i >= limit) {
			t.Errorf("request %d: %d destroyed", i, n)
		}
	}
	if err := (<-requests).Accept(7, ib.QKeyRDMAUDP, nil); err != nil {
		t.Error(err)
	}
	l.take(Request{}, &recordedID{}, true)
	l.Close()
	if c := l.d.Counters(); c.Answers["full"] != 3 || c.Answers["accepted"] != 1 || c.Answers["closed"] != limit || c.Requests != limit+4 {
		t.Errorf("%d requests, answers %v", c.Requests, c.Answers)
	}
}

// TestOneAnswer has many answer one request, while its time runs out and the listener closes.
func TestOneAnswer(t *testing.T) {
	for range 200 {
		l, requests := listening(sidrLimits{1, time.Millisecond})
		id := &recordedID{}
		l.take(Request{}, id, true)
		r := <-requests
		var all sync.WaitGroup
		var ok atomic.Int32
		for i := range 8 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Microsecond)
				if r.Accept(7, ib.QKeyRDMAUDP, nil) == nil {
					ok.Add(1)
				}
				if i == 7 {
					l.Close()
				}
			})
		}
		all.Wait()
		told, n := id.state()
		if c := l.d.Counters(); n != 1 || c.Answers.Sum() != 1 || ok.Load() != int32(c.Answers["accepted"]) || (told != "[]") != (ok.Load() == 1) {
			t.Fatalf("%d accepted, told %s, %d destroyed, answers %v", ok.Load(), told, n, c.Answers)
		}
	}
}

func TestConnectFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		event  connectEvent
		cause  ConnectCause // "": goes on
		status uint8
	}{
		{"nobody listens", connectEvent{step: stepRefused, status: 1}, ConnectRejected, ib.SIDRStatusUnsupported},
		{"rejected", connectEvent{step: stepRefused, status: 2}, ConnectRejected, ib.SIDRStatusRejected},
		{"no answer", connectEvent{step: stepRefused, status: -int(syscall.ETIMEDOUT)}, ConnectTimedOut, 0},
		{"the kernel fails", connectEvent{step: stepRefused, status: -int(syscall.ENOMEM)}, ConnectFailed, 0},
		{"no ARP answer", connectEvent{step: stepNoPeer, status: -int(syscall.ETIMEDOUT)}, ConnectUnreachable, 0},
		{"device removed", connectEvent{step: stepNoDevice}, ConnectClosed, 0},
		{"an address changes", connectEvent{step: stepOther}, "", 0},
		{"late", connectEvent{step: stepAddress}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event.Private = []byte("why")
			got := c.event.failure()
			switch {
			case (got == nil) != (c.cause == ""):
				t.Errorf("%v, want %q", got, c.cause)
			case got != nil && (got.Cause != c.cause || got.Status != c.status || (string(got.Private) == "why") != (c.cause == ConnectRejected)):
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
	d := &Door{sidr: newSIDRPorts(), ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
	for range maxConnects { // no place is free: only ctx ends the wait
		d.sidr.free <- struct{}{}
	}
	ok := ConnectRequest{To: netip.MustParseAddr("10.8.0.9"), Port: 7}
	try := func(name string, ctx context.Context, r ConnectRequest, cause ConnectCause) {
		t.Helper()
		_, err := d.Connect(ctx, r)
		var e *ConnectError
		if !errors.As(err, &e) || e.Cause != cause || e.To != netip.AddrPortFrom(r.To, r.Port) {
			t.Errorf("%s: %v, want %s", name, err, cause)
		}
	}
	try("deadline", deadline, ok, ConnectTimedOut)
	try("deadline with a cause", named, ok, ConnectTimedOut)
	try("canceled", canceled, ok, ConnectCanceled)
	try("no address", t.Context(), ConnectRequest{Port: 7}, ConnectFailed)
	try("no port", t.Context(), ConnectRequest{To: ok.To}, ConnectFailed)
	try("too much private data", t.Context(), ConnectRequest{To: ok.To, Port: 7, Private: make([]byte, 181)}, ConnectFailed)
	closing, closed := context.WithCancel(context.Background())
	closed()
	d.ctx = closing
	try("the door closes", t.Context(), ok, ConnectClosed)
	d.closeSIDR()
	try("the door is closed", t.Context(), ok, ConnectClosed)
	if _, err := d.Listen(7, func(Request) {}); !errors.Is(err, errClosed) {
		t.Errorf("Listen after the end: %v", err)
	}
	if _, err := d.Listen(0, func(Request) {}); err == nil {
		t.Error("listened on port 0")
	}
	want := Counts{"timed_out": 2, "canceled": 1, "failed": 3, "closed": 2}
	if c := d.Counters().Connects; !maps.Equal(c, want) {
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
		{"own", "", "10.8.0.200", rocePort, true, "10.8.0.3"},
		{"given", "10.9.0.3", "10.8.0.200", rocePort, true, "10.9.0.3"},
		{"IPv6", "", "fd08::200", rocePort, true, "fd08::3"},
		{"link-local", "", "fe80::9%eth7", rocePort, true, "fe80::5054:ff:fe00:1"},
		{"nothing fits", "", "10.8.0.200", rocePort[4:6], true, ""},
		{"InfiniBand: the routes choose", "", "10.8.0.200", ibPort, false, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ConnectRequest{To: netip.MustParseAddr(c.to)}
			if c.from != "" {
				r.From = netip.MustParseAddr(c.from)
			}
			got, err := connectFrom(&PortInfo{GIDs: c.gids, Ethernet: c.ethernet, GID: gid("10.8.0.3")}, r)
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
		{"10.8.0.9", rocePort, 0}, {"169.254.0.9", rocePort, 0}, {"fd08::9", rocePort, 0},
		{"fe80::9", rocePort, 2}, {"fe80::9%7", rocePort, 7}, {"fe80::9%lo", rocePort, 1}, {"fe80::9%nosuch", rocePort, 2},
		{"fe80::9", ibPort, 0},
	} {
		if got := scopeOf(c.gids, netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %d, want %d", c.addr, got, c.want)
		}
	}
}
