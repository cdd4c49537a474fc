// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// TestCMRequestIDs: at no time have two requests of one port the same ID, and each gets its own answer.
func TestCMRequestIDs(t *testing.T) {
	r := newCMRig(t, CMConfig{Connects: 50, Timeout: 10 * time.Second}, CMConfig{})
	r.client.nextID = 0xfffffff0 // it wraps
	// The answer contains the asker's port, so that the test can tell that it belongs to the request.
	r.answer = func(q *CMRequest) error { return q.Accept(ib.QPN(q.FromPort), 1, q.Private[:2]) }
	var all sync.WaitGroup
	const count = 300
	for i := range uint16(count) {
		all.Go(func() {
			a, err := r.connect(t.Context(), CMConnect{FromPort: 100 + i, Private: []byte{byte(i), byte(i >> 8)}})
			if err != nil || a.QPN != ib.QPN(100+i) || a.Private[0] != byte(i) || a.Private[1] != byte(i>>8) {
				t.Errorf("request %d: %+v, %v", i, a, err)
			}
		})
	}
	all.Wait()
	ids := map[uint32]bool{}
	for _, q := range r.seen() {
		ids[q.id] = true
	}
	if len(ids) != count || len(r.client.asking) != 0 {
		t.Errorf("%d IDs for %d requests, %d are still kept", len(ids), count, len(r.client.asking))
	}
}

// TestCMConnects: no more than Connects are under way; others wait.
func TestCMConnects(t *testing.T) {
	r := newCMRig(t, CMConfig{Connects: 2}, CMConfig{})
	r.answer = nil
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := r.connect(ctx, CMConnect{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(r.seen()); n != 2 || r.client.Counters().Connects["timed_out"] != 5 {
		t.Errorf("%d requests were sent, %+v", n, r.client.Counters())
	}
}

func TestCMConnectRejections(t *testing.T) {
	r := newCMRig(t, CMConfig{}, CMConfig{})
	for status := uint8(1); status < 7; status++ {
		r.answer = func(q *CMRequest) error { return q.Reject(status, []byte("no")) }
		_, err := r.connect(t.Context(), CMConnect{})
		var rejected *CMRejectedError
		if !errors.As(err, &rejected) || rejected.Status != status || string(rejected.Private[:3]) != "no\x00" {
			t.Errorf("status %d: %v", status, err)
		}
	}
	for name, c := range map[string]CMConnect{
		"no port":       {From: addrA, To: addrB},
		"two families":  {From: addrA, To: ib.GID{1}.Addr(), Port: 1},
		"nobody":        {From: addrA, Port: 1},
		"too much data": {From: addrA, To: addrB, Port: 1, Private: make([]byte, CMAskPrivateLen+1)},
	} {
		if _, err := r.client.Connect(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCMImpostors: replies from others, replies to others, and malformed replies are ignored.
func TestCMImpostors(t *testing.T) {
	f := newFabric(t, Config{})
	client := newTestCM(t, attachHCA(t, f, PortConfig{Name: "client", GUID: 10}), CMConfig{Timeout: time.Minute})
	server := attachHCA(t, f, PortConfig{Name: "server", GUID: 11})
	liar := attachHCA(t, f, PortConfig{Name: "liar", GUID: 12})
	server.handleMAD(ib.ClassCM, func(from MADAddress, b []byte) {
		mad, _ := ib.AsMAD(b)
		req := ib.SIDRReq(b[ib.MADHdrLen:])
		reply := func(h *HCA, qpn ib.QPN, id uint32, tid uint64, service ib.ServiceID) {
			rep := newCM(ib.AttrSIDRRep, tid)
			ib.PutSIDRRep(rep[ib.MADHdrLen:], ib.SIDRRepFields{RequestID: id, QPN: qpn, ServiceID: service})
			h.SendMAD(from, rep)
			waitFor(t, "reply", f.Quiet)
		}
		reply(liar, 2, req.RequestID(), mad.TID(), req.ServiceID())
		reply(server, 3, req.RequestID()+1, mad.TID(), req.ServiceID())
		reply(server, 4, req.RequestID(), mad.TID()+1, req.ServiceID())
		reply(server, 5, req.RequestID(), mad.TID(), req.ServiceID()+1)
		reply(server, 6, req.RequestID(), mad.TID(), req.ServiceID())
		reply(server, 7, req.RequestID(), mad.TID(), req.ServiceID())
	})
	c := CMConnect{Route: MADAddress{LID: server.own().LID}, From: addrA, To: addrB, Port: 5}
	if a, err := client.Connect(t.Context(), c); err != nil || a.QPN != 6 {
		t.Errorf("%+v, %v", a, err)
	}
	waitFor(t, "drops", func() bool { return client.hca.gsi.drops.counts()[DropCMStray] == 5 })
	server.handleMAD(ib.ClassCM, func(from MADAddress, b []byte) {
		mad, _ := ib.AsMAD(b)
		req := ib.SIDRReq(b[ib.MADHdrLen:])
		rep := newCM(ib.AttrSIDRRep, mad.TID())
		ib.PutSIDRRep(rep[ib.MADHdrLen:], ib.SIDRRepFields{RequestID: req.RequestID(), QPN: ib.QP1, ServiceID: req.ServiceID()})
		server.SendMAD(from, rep)
	})
	if a, err := client.Connect(t.Context(), c); err == nil {
		t.Errorf("QP1 is a service: %+v", a)
	}
}

// FuzzCM sends arbitrary datagrams of one port to a CM that serves and asks.
func FuzzCM(f *testing.F) {
	f.Add(cmRequest(7, 70))
	f.Add(newCM(ib.AttrSIDRRep, 1<<63|1))
	f.Add(newCM(0x10, 1))
	subnet := newFabric(f, Config{})
	port, err := subnet.Attach(PortConfig{Name: "cm", GUID: 10})
	if err != nil {
		f.Fatal(err)
	}
	m := newTestCM(f, NewHCA(port), CMConfig{Requests: 20, PerSource: 5})
	err = m.Serve([]CMPorts{{1, 0xffff}}, func(q *CMRequest) {
		if q.Port%3 == 0 {
			_ = q.Accept(ib.QPN(q.Port), 1, q.Private)
		}
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		mad := make([]byte, ib.MADLen)
		copy(mad, b)
		mad[1] = ib.ClassCM
		m.handle(MADAddress{LID: ib.LID(b2(b) % 6)}, mad)
		checkCM(t, m)
	})
}

// b2 returns the number in some big-endian bytes.
func b2(b []byte) (sum uint16) {
	for _, x := range b {
		sum += uint16(x)
	}
	return sum
}
