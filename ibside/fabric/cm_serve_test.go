// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// asker sends requests that the test builds itself, and reads the replies.
type asker struct {
	hca     *HCA
	to      ib.LID
	replies chan []byte
}

func newAsker(t *testing.T, f *Fabric, guid ib.GUID, to *CM) *asker {
	a := &asker{attachHCA(t, f, PortConfig{Name: "asker", GUID: guid}), to.hca.own().LID, make(chan []byte, 1000)}
	a.hca.handleMAD(ib.ClassCM, func(_ MADAddress, mad []byte) { a.replies <- mad })
	return a
}

// cmRequest makes a valid request.
func cmRequest(id uint32, tid uint64) []byte {
	b := newCM(ib.AttrSIDRReq, tid)
	private := make([]byte, ib.CMAHdrLen)
	ib.PutCMAHeader(private, ib.CMAFields{Src: addrA, Dst: addrB})
	ib.PutSIDRReq(b[ib.MADHdrLen:], ib.SIDRReqFields{
		RequestID: id, PKey: 0xffff, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, cmPort), Private: private,
	})
	return b
}

func (a *asker) send(t *testing.T, b []byte) {
	t.Helper()
	if cause := a.hca.SendMAD(MADAddress{LID: a.to}, b); cause != "" {
		t.Fatal(cause)
	}
}

// reply waits for the next reply, which must answer that request.
func (a *asker) reply(t *testing.T, id uint32, tid uint64) ib.SIDRRep {
	t.Helper()
	select {
	case b := <-a.replies:
		mad, _ := ib.AsMAD(b)
		rep, ok := ib.AsSIDRRep(b[ib.MADHdrLen:])
		if !ok || !mad.IsCM() || mad.AttrID() != ib.AttrSIDRRep || mad.TID() != tid || rep.RequestID() != id {
			t.Fatalf("reply %x, want one to request %#x, transaction %#x", b, id, tid)
		}
		return rep
	case <-time.After(time.Minute):
		t.Fatalf("no reply to request %#x", id)
		return nil
	}
}

// TestCMRepeats: a repetition is not delivered while its request waits, and gets the very same answer afterwards.
func TestCMRepeats(t *testing.T) {
	f := newFabric(t, Config{})
	server := newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), CMConfig{})
	requests := make(chan *CMRequest, 10)
	if err := server.Serve([]CMPorts{{1, 65535}}, func(q *CMRequest) { requests <- q }); err != nil {
		t.Fatal(err)
	}
	a, b := newAsker(t, f, 12, server), newAsker(t, f, 13, server)
	for range 3 {
		a.send(t, cmRequest(7, 70))
	}
	b.send(t, cmRequest(7, 70)) // the same of another port is another request
	a.send(t, cmRequest(7, 71)) // and so is that of a restarted host
	waitFor(t, "counts", func() bool { c := server.Counters(); return c.Requests == 3 && c.Repeats == 2 })
	for i := range 3 {
		if err := (<-requests).Accept(ib.QPN(100+i), 1, []byte{byte(i)}); err != nil {
			t.Error(err)
		}
	}
	first := map[uint64][]byte{}
	for range 2 {
		m := <-a.replies
		mad, _ := ib.AsMAD(m)
		first[mad.TID()] = m
	}
	fromB := b.reply(t, 7, 70)
	for range 2 {
		a.send(t, cmRequest(7, 70))
		if again := <-a.replies; !bytes.Equal(again, first[70]) {
			t.Errorf("the repetition got\n%x, its request got\n%x", again, first[70])
		}
	}
	b.send(t, cmRequest(7, 70))
	if again := b.reply(t, 7, 70); !bytes.Equal(again, fromB) || bytes.Equal(again, first[70][ib.MADHdrLen:]) {
		t.Errorf("the other port's repetition got %x", again)
	}
	if c := server.Counters(); c.Requests != 3 || c.Repeats != 5 || len(requests) != 0 || c.Answers[CMAccepted] != 3 {
		t.Errorf("%+v, %d more requests", c, len(requests))
	}
}

func TestCMStatuses(t *testing.T) {
	service := func(s ib.PortSpace, port uint16) func([]byte) {
		return func(b []byte) {
			f := ib.SIDRReq(b[ib.MADHdrLen:]).Fields()
			f.ServiceID = ib.ServiceIDFromPort(s, port)
			ib.PutSIDRReq(b[ib.MADHdrLen:], f)
		}
	}
	hosts := func(src, dst string) func([]byte) {
		return func(b []byte) {
			ib.PutCMAHeader(b[ib.MADHdrLen+16:], ib.CMAFields{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst)})
		}
	}
	for _, c := range []struct {
		name   string
		change func(b []byte)
		status uint8
		count  string
	}{
		{"sound", func([]byte) {}, ib.SIDRStatusOK, CMAccepted},
		{"sound, IPv6", hosts("fd09::1", "fd09::2"), ib.SIDRStatusOK, CMAccepted},
		{"the service says no", service(ib.PortSpaceUDP, 9), ib.SIDRStatusRedirect, CMRejected},
		{"a port that nobody serves", service(ib.PortSpaceUDP, cmPort+1), ib.SIDRStatusUnsupported, CMUnsupported},
		{"TCP", service(ib.PortSpaceTCP, cmPort), ib.SIDRStatusUnsupported, CMUnsupported},
		{"no IP service", func(b []byte) { b[ib.MADHdrLen+8] = 1 }, ib.SIDRStatusUnsupported, CMUnsupported},
		{"another class version", func(b []byte) { b[2] = 1 }, ib.SIDRStatusVersion, CMBad},
		{"another header version", func(b []byte) { b[ib.MADHdrLen+16] = 0x10 }, ib.SIDRStatusRejected, CMBad},
		{"no header", func(b []byte) { clear(b[ib.MADHdrLen+16:]) }, ib.SIDRStatusRejected, CMBad},
		{"from a group", hosts("239.1.1.1", "10.9.0.7"), ib.SIDRStatusRejected, CMBad},
		{"to everybody", hosts("10.9.0.1", "255.255.255.255"), ib.SIDRStatusRejected, CMBad},
		{"a partition that the port is not in", func(b []byte) { b[ib.MADHdrLen+4] = 0x12 }, ib.SIDRStatusRejected, CMBad},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFabric(t, Config{})
			server := newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), CMConfig{})
			err := server.Serve([]CMPorts{{9, 9}, {cmPort, cmPort}}, func(q *CMRequest) {
				if q.Port == 9 {
					_ = q.Reject(ib.SIDRStatusRedirect, []byte("there"))
					return
				}
				_ = q.Accept(5, 6, nil)
			})
			if err != nil {
				t.Fatal(err)
			}
			a, b := newAsker(t, f, 12, server), cmRequest(3, 4)
			c.change(b)
			a.send(t, b)
			rep := a.reply(t, 3, 4)
			if rep.Status() != c.status || (rep.QPN() == 5) != (c.status == 0) || rep.ServiceID() != ib.SIDRReq(b[ib.MADHdrLen:]).ServiceID() {
				t.Errorf("status %d, QPN %v, service %v; want status %d", rep.Status(), rep.QPN(), rep.ServiceID(), c.status)
			}
			if got := server.Counters().Answers; !maps.Equal(got, Counts{c.count: 1}) {
				t.Errorf("counted as %v, want %s", got, c.count)
			}
		})
	}
}

// TestCMUnread: a datagram that is no request is dropped by name, without an answer.
func TestCMUnread(t *testing.T) {
	f := newFabric(t, Config{})
	server := newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), CMConfig{})
	a := newAsker(t, f, 12, server)
	get := cmRequest(1, 1)
	get[3] = ib.MethodGet
	version := newCM(ib.AttrSIDRRep, 1)
	version[2] = 1
	long := newCM(ib.AttrSIDRRep, 1)
	long[ib.MADHdrLen+5] = ib.SIDRAdditionalLen + 1
	want := Counts{DropCMUnread: 3, DropCMOther: 2, DropCMStray: 1}
	for _, b := range [][]byte{get, version, long, newCM(0x10, 1), newCM(0x15, 1), newCM(ib.AttrSIDRRep, 1)} {
		a.send(t, b)
	}
	waitFor(t, "drops", func() bool { return server.hca.gsi.drops.counts().Sum() == want.Sum() })
	if got := server.hca.gsi.drops.counts(); !maps.Equal(got, want) || len(a.replies) != 0 {
		t.Errorf("dropped %v, want %v; %d replies", got, want, len(a.replies))
	}
}

// TestCMAnswersChecked: an impossible answer is an error for the caller that gives it, and the request goes on waiting.
func TestCMAnswersChecked(t *testing.T) {
	r := newCMRig(t, CMConfig{}, CMConfig{})
	long := make([]byte, ib.SIDRRepPrivateLen+1)
	r.answer = func(q *CMRequest) error {
		for i, err := range []error{
			q.Accept(0, 1, nil), q.Accept(1, 1, nil), q.Accept(0xffffff, 1, nil), q.Accept(1<<24, 1, nil), q.Accept(5, 1, long),
			q.Reject(ib.SIDRStatusOK, nil), q.Reject(ib.SIDRStatusNoQP, long),
		} {
			if err == nil {
				t.Errorf("answer %d was taken", i)
			}
		}
		return q.Accept(5, 1, nil)
	}
	if a, err := r.connect(t.Context(), CMConnect{}); err != nil || a.QPN != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range [][]CMPorts{{{0, 5}}, {{5, 4}}} {
		if err := r.server.Serve(bad, r.handle); err == nil {
			t.Errorf("serves %v", bad)
		}
	}
}

// TestCMFlood: a port that asks too much first loses the answers kept for it, is then rejected, and does not disturb
// others.
func TestCMFlood(t *testing.T) {
	f := newFabric(t, Config{})
	server := newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), CMConfig{Requests: 10, PerSource: 4})
	requests := make(chan *CMRequest, 100)
	if err := server.Serve([]CMPorts{{cmPort, cmPort}}, func(q *CMRequest) { requests <- q }); err != nil {
		t.Fatal(err)
	}
	askers := []*asker{newAsker(t, f, 12, server), newAsker(t, f, 13, server), newAsker(t, f, 14, server)}
	// Six of each: four of the first, four of the second, and what is left, two, of the third.
	for i, kept := range []int{4, 4, 2} {
		for id := range uint32(6) {
			askers[i].send(t, cmRequest(id, 1))
			if id >= uint32(kept) {
				if rep := askers[i].reply(t, id, 1); rep.Status() != ib.SIDRStatusNoQP {
					t.Errorf("port %d, request %d: status %d", i, id, rep.Status())
				}
			}
		}
	}
	want := Counts{CMFullSource: 4, CMFull: 4}
	if c := server.Counters(); !maps.Equal(c.Answers, want) || c.Waiting != 10 {
		t.Errorf("%+v, want %v", c, want)
	}
	checkCM(t, server)
	for range 10 {
		if err := (<-requests).Accept(9, 9, nil); err != nil {
			t.Error(err)
		}
	}
	for id := range uint32(100) { // kept answers make room, but only for requests of the same port
		askers[0].send(t, cmRequest(100+id, 1))
		if err := (<-requests).Accept(9, 9, nil); err != nil {
			t.Error(err)
		}
	}
	checkCM(t, server)
	before := server.Counters().Repeats
	for id := range uint32(4) {
		askers[1].send(t, cmRequest(id, 1)) // still remembered
	}
	waitFor(t, "repetitions", func() bool { return server.Counters().Repeats == before+4 })
}

// TestCMExpiry: an answer is kept for a limited time; after that the same bytes are a new request.
func TestCMExpiry(t *testing.T) {
	f := newFabric(t, Config{})
	server := newTestCM(t, attachHCA(t, f, PortConfig{Name: "server", GUID: 11}), CMConfig{Remember: 20 * time.Millisecond})
	if err := server.Serve([]CMPorts{{cmPort, cmPort}}, func(q *CMRequest) { _ = q.Accept(9, 9, nil) }); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, f, 12, server)
	for range 2 {
		a.send(t, cmRequest(1, 1))
		a.reply(t, 1, 1)
		time.Sleep(40 * time.Millisecond)
	}
	if c := server.Counters(); c.Requests != 2 || c.Repeats != 0 {
		t.Errorf("%+v", c)
	}
}

// TestCMPartitions: a request is sent in the partition that it names, so that a port of that one alone takes it; one
// that names another than it comes in is rejected.
func TestCMPartitions(t *testing.T) {
	const first, second = ib.PKey(0x8001), ib.PKey(0x8002)
	f := newFabric(t, Config{PKeys: []ib.PKey{first, second}})
	both := newTestCM(t, attachHCA(t, f, PortConfig{Name: "both", GUID: 10}), CMConfig{})
	one := newTestCM(t, attachHCA(t, f, PortConfig{Name: "one", GUID: 11, PKeys: []ib.PKey{second}}), CMConfig{})
	named := make(chan ib.PKey, 2)
	for _, m := range []*CM{both, one} {
		err := m.Serve([]CMPorts{{cmPort, cmPort}}, func(q *CMRequest) {
			select {
			case named <- q.PKey:
			default: // of the asker
			}
			_ = q.Accept(5, 6, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	connect := func(from, to *CM, k ib.PKey) error {
		a, err := from.Connect(t.Context(), CMConnect{Route: MADAddress{LID: to.hca.own().LID}, From: addrA, To: addrB, Port: cmPort, PKey: k})
		if err == nil && a.QPN != 5 {
			t.Errorf("answered %+v", a)
		}
		return err
	}
	if err := errors.Join(connect(both, one, second), connect(one, both, 0)); err != nil || <-named != second || <-named != second {
		t.Errorf("%v; or a request named the other partition", err)
	}
	if err := connect(one, both, first); err == nil {
		t.Error("connected in a partition that the port is not in")
	}
	a := newAsker(t, f, 12, both)
	for i, c := range []struct {
		in     uint16
		names  ib.PKey
		status uint8
	}{{0, first, ib.SIDRStatusOK}, {0, second, ib.SIDRStatusRejected}, {1, first, ib.SIDRStatusRejected}, {1, second, ib.SIDRStatusOK}} {
		b := cmRequest(uint32(i), 4)
		binary.BigEndian.PutUint16(b[ib.MADHdrLen+4:], uint16(c.names))
		if cause := a.hca.SendMAD(MADAddress{LID: a.to, PKeyIndex: c.in}, b); cause != "" {
			t.Fatal(cause)
		}
		if rep := a.reply(t, uint32(i), 4); rep.Status() != c.status {
			t.Errorf("sent with index %d, naming %v: status %d, want %d", c.in, c.names, rep.Status(), c.status)
		}
	}
	if cause := a.hca.SendMAD(MADAddress{LID: a.to, PKeyIndex: 2}, cmRequest(9, 9)); cause != DropPKey {
		t.Errorf("sent with a P_Key that the port does not have: %q", cause)
	}
}
