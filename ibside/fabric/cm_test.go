// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

var (
	addrA = netip.MustParseAddr("10.9.0.1")
	addrB = netip.MustParseAddr("10.9.0.7")
)

const cmPort = 7174

// newTestCM makes a CM whose counters and bounds are checked at the end.
func newTestCM(t testing.TB, h *HCA, c CMConfig) *CM {
	m := NewCM(h, c)
	t.Cleanup(func() {
		m.Close()
		checkCM(t, m)
	})
	return m
}

func checkCM(t testing.TB, m *CM) {
	t.Helper()
	c := m.Counters()
	if c.Requests != uint64(c.Waiting)+c.Answers.Sum() {
		t.Errorf("%d requests != %d waiting + answers %v", c.Requests, c.Waiting, c.Answers)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, b := 0, &m.state
	for _, s := range b.sources {
		kept += s.kept
		if s.kept > b.perSource || s.kept == 0 {
			t.Errorf("%d requests of LID %v are kept, of at most %d", s.kept, s.lid, b.perSource)
		}
	}
	if kept != len(b.entries) || kept != b.waiting+b.answered.Len() || kept > b.limit {
		t.Errorf("%d requests are kept of %d sources, %d wait, %d have answers", len(b.entries), kept, b.waiting, b.answered.Len())
	}
}

// cmRig is two adapters with a CM each, and a service that answers behind the second.
type cmRig struct {
	client, server *CM
	mu             sync.Mutex
	requests       []*CMRequest
	answer         func(*CMRequest) error
}

func newCMRig(t *testing.T, client, server CMConfig) *cmRig {
	f := newFabric(t, Config{PKeys: []ib.PKey{0xffff, 0x8001}})
	r := &cmRig{
		client: newTestCM(t, attachHCA(t, f, PortConfig{Name: "client", GUID: 10}), client),
		server: newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), server),
		answer: func(r *CMRequest) error { return r.Accept(0x123, 0x1234567, []byte("yes")) },
	}
	if err := r.server.Serve([]CMPorts{{100, 101}, {cmPort, cmPort}}, r.handle); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *cmRig) handle(q *CMRequest) {
	r.mu.Lock()
	r.requests = append(r.requests, q)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		_ = answer(q) // fails when the port is closed, or the request has timed out
	}
}

func (r *cmRig) seen() []*CMRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *cmRig) connect(ctx context.Context, c CMConnect) (CMAnswer, error) {
	c.Route.LID, c.From, c.To = r.server.hca.own().LID, addrA, addrB
	if c.Port == 0 {
		c.Port = cmPort
	}
	return r.client.Connect(ctx, c)
}

func TestCMConnect(t *testing.T) {
	for _, c := range []struct {
		name  string
		route MADAddress
		pkey  ib.PKey
	}{
		{"", MADAddress{SL: 3}, 0},
		{"with a GRH, in another partition", MADAddress{GRH: &ib.GRHFields{DGID: mustGID("fe80::b"), HopLimit: 9}}, 0x8001},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCMRig(t, CMConfig{}, CMConfig{})
			a, err := r.connect(t.Context(), CMConnect{Route: c.route, FromPort: 99, PKey: c.pkey, Private: []byte("please")})
			if err != nil || a.QPN != 0x123 || a.QKey != 0x1234567 || string(a.Private[:4]) != "yes\x00" || len(a.Private) != ib.SIDRRepPrivateLen {
				t.Fatalf("%+v, %v", a, err)
			}
			q := r.seen()[0]
			if c.pkey == 0 {
				c.pkey = 0xffff
			}
			if q.From != addrA || q.To != addrB || q.FromPort != 99 || q.Port != cmPort || q.PKey != c.pkey ||
				string(q.Private[:7]) != "please\x00" || len(q.Private) != CMAskPrivateLen ||
				q.Peer.LID != r.client.hca.own().LID || q.Peer.SL != c.route.SL || (q.Peer.GRH != nil) != (c.route.GRH != nil) {
				t.Errorf("the request came as %+v", q)
			}
			if err := q.Reject(ib.SIDRStatusNoQP, nil); !errors.Is(err, errCMAnswered) {
				t.Errorf("answered twice: %v", err)
			}
		})
	}
}

// TestCMLoss loses datagrams in each of the four places. The service is asked once all the same.
func TestCMLoss(t *testing.T) {
	for _, place := range []struct {
		name   string
		server bool
		out    bool
		attr   uint16
		lost   uint64 // as counted at QP1 of the adapter that loses a received datagram
	}{
		{"request not sent", false, true, ib.AttrSIDRReq, 0},
		{"request not received", true, false, ib.AttrSIDRReq, 2},
		{"reply not sent", true, true, ib.AttrSIDRRep, 0},
		{"reply not received", false, false, ib.AttrSIDRRep, 2},
	} {
		t.Run(place.name, func(t *testing.T) {
			var mu sync.Mutex
			left := 2
			faulty := CMConfig{Timeout: 20 * time.Millisecond, Lose: func(out bool, attr uint16) bool {
				mu.Lock()
				defer mu.Unlock()
				if out != place.out || attr != place.attr || left == 0 {
					return false
				}
				left--
				return true
			}}
			configs := [2]CMConfig{{Timeout: faulty.Timeout}, faulty}
			if !place.server {
				configs = [2]CMConfig{faulty, {}}
			}
			r := newCMRig(t, configs[0], configs[1])
			if a, err := r.connect(t.Context(), CMConnect{}); err != nil || a.QPN != 0x123 {
				t.Fatalf("%+v, %v", a, err)
			}
			if n, c := len(r.seen()), r.client.Counters(); n != 1 || c.Again < 2 || c.Connects["ok"] != 1 {
				t.Errorf("asked %d times, client %+v", n, c)
			}
			loser := r.client
			if place.server {
				loser = r.server
			}
			if got := loser.hca.gsi.drops.counts()[DropCMLost]; got != place.lost {
				t.Errorf("%d lost at QP1, want %d", got, place.lost)
			}
		})
	}
}

func TestCMNoAnswer(t *testing.T) {
	r := newCMRig(t, CMConfig{Timeout: time.Millisecond, Tries: 3}, CMConfig{AnswerIn: 50 * time.Millisecond})
	r.answer = nil
	if _, err := r.connect(t.Context(), CMConnect{}); !errors.Is(err, ErrCMTimeout) {
		t.Errorf("nobody answers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.connect(ctx, CMConnect{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	r.client.cfg.Timeout = time.Minute
	var rejected *CMRejectedError
	if _, err := r.connect(t.Context(), CMConnect{}); !errors.As(err, &rejected) || rejected.Status != ib.SIDRStatusRejected {
		t.Errorf("rejected because there was no answer: %v", err)
	}
	waitFor(t, "end of all requests", func() bool { return r.server.Counters().Waiting == 0 })
	if err := r.seen()[0].Accept(5, 5, nil); !errors.Is(err, errCMAnswered) {
		t.Errorf("answered too late: %v", err)
	}
	if _, err := r.client.Connect(t.Context(), CMConnect{Route: MADAddress{LID: 0xffff}, From: addrA, To: addrB, Port: 1}); err == nil {
		t.Error("connected to no LID")
	}
	want := Counts{"timed_out": 1, "canceled": 1, "rejected": 1, "failed": 1}
	if c := r.client.Counters(); !maps.Equal(c.Connects, want) {
		t.Errorf("%v, want %v", c.Connects, want)
	}
}

// TestCMClose: a CM that closes does not answer the waiting requests, so that a successor can.
func TestCMClose(t *testing.T) {
	r := newCMRig(t, CMConfig{Timeout: 10 * time.Millisecond, Tries: 1000, Connects: 1}, CMConfig{})
	r.answer = nil
	ended := make(chan error, 2)
	go func() { _, err := r.connect(t.Context(), CMConnect{}); ended <- err }()
	waitFor(t, "request", func() bool { return len(r.seen()) == 1 })
	go func() { _, err := r.connect(t.Context(), CMConnect{}); ended <- err }() // waits for its turn
	r.server.Close()
	r.server.Close()
	if c := r.server.Counters(); c.Answers[CMClosed] != 1 || c.Waiting != 0 {
		t.Errorf("the server's: %+v", c)
	}
	if err := r.seen()[0].Accept(5, 5, nil); !errors.Is(err, errCMAnswered) {
		t.Errorf("answered after the end: %v", err)
	}
	next := newTestCM(t, r.server.hca, CMConfig{})
	if err := next.Serve([]CMPorts{{cmPort, cmPort}}, func(q *CMRequest) { _ = q.Accept(0x77, 5, nil) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("the successor has not answered: %v", err)
		}
	}
	r.client.Close()
	if _, err := r.connect(t.Context(), CMConnect{}); !errors.Is(err, ErrClosed) {
		t.Errorf("connected after the end: %v", err)
	}
}
