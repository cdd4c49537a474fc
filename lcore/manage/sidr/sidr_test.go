// SPDX-License-Identifier: Apache-2.0

package sidr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/partitions"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

const (
	roceToIB = iota
	ibToRoCE
)

const servicePort = 7174

var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 0xfe}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}
	bridge    = netip.MustParseAddr("10.9.0.254")
	host      = netip.MustParseAddr("10.9.0.1")
	node      = netip.MustParseAddr("10.9.0.7")
	nodeGID   = ib.GIDFromGUID(0xfe80<<48, 7)
	answer    = ibside.ServiceAnswer{QPN: 0x456, QKey: 0x1ee7, Private: []byte("from the node")}
)

// A rig is SIDR with fakes. It implements the Services, the Nodes, the Hosts and the ProxyQPs, too, and the test runs
// the loop. Time is fake (testing/synctest).
type rig struct {
	*sidr.SIDR
	inbox    *inbox.Inbox
	requests func(ibside.ServiceRequest) // the handler that the port got
	connects []ibside.ServiceConnect
	known    bool // whether the host's MAC address is known
	asked    int  // how often it was searched for
	learns   bool // nodes that are not known are being learned
	wanted   map[netip.Addr]bool
	sent     [][]byte
}

func (r *rig) Serve(_ []ibside.PortRange, h func(ibside.ServiceRequest)) error {
	r.requests = h
	return nil
}

func (r *rig) Connect(_ context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	r.connects = append(r.connects, c)
	return answer, nil
}

func (r *rig) Has(ip netip.Addr) bool   { return ip == node }
func (r *rig) GID(ip netip.Addr) ib.GID { return nodeGID }
func (r *rig) PKey(netip.Addr) ib.PKey  { return 0 }

func (r *rig) Find(ip netip.Addr) (tables.Host, bool) {
	return tables.Host{IP: ip, MAC: hostMAC, Version: 2}, ip == host && r.known
}

func (r *rig) Learn(netip.Addr, frame.MAC, uint16, uint8, time.Time) (punt.Rejection, error) {
	return punt.RejectSource, errors.New("another station's")
}

func (r *rig) Wanted(ip netip.Addr, _ time.Time) bool {
	r.wanted[ip] = true
	return r.learns
}

func (r *rig) Standing(netip.Addr) (confirmed, onLink bool)     { return true, true }
func (r *rig) Confirm(netip.Addr, frame.MAC, uint16, time.Time) {}

func (r *rig) Ask(netip.Addr) bool {
	r.asked++
	return true
}

func (r *rig) AnswersFor(ip netip.Addr) bool                      { return ip == bridge || ip == node }
func (r *rig) IsSpoofed(ip netip.Addr, _ frame.MAC, _ bool) bool  { return ip != host }
func (r *rig) Promise(netip.Addr, uint16, uint8, time.Time) error { return nil }
func (r *rig) Release(netip.Addr, uint16, uint8)                  {}
func (r *rig) TakePunted() []punt.Frame                           { return nil }
func (r *rig) Send(_ uint8, b []byte) error                       { r.sent = append(r.sent, b); return nil }

func (r *rig) ForService(_ proxyqps.Service, _ time.Time, then func(ib.QPN, error)) { then(0x789, nil) }

// bubble runs a test with SIDR on a fake clock.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{inbox: inbox.New(256, errors.New("ended")), known: true, wanted: map[netip.Addr]bool{}}
		a := ask.New(r.inbox)
		ctx, stop := context.WithCancel(context.Background())
		a.Start(ctx)
		r.SIDR = sidr.New(sidr.Config{
			Port: r, Ports: []ibside.PortRange{{First: servicePort, Last: servicePort}}, Allow: []netip.Prefix{netip.PrefixFrom(host, 32)},
			RoCEPKey: ib.PKeyDefault,
		}, sidr.Deps{
			Nodes: r, Hosts: r, ProxyQPs: r, Frames: punt.NewWorkers([]punt.Worker{r}), Ask: a, Changed: func() {}, Wanted: r.Wanted,
			Local:      &local.Addresses{Link: frame.Link{MAC: bridgeMAC}, IPs: []netip.Prefix{netip.PrefixFrom(bridge, 24)}},
			Log:        ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil))),
			Partitions: partitions.New(0x8001), PartitionOf: func(ib.GID) uint8 { return 0 },
		})
		if r.Start(); r.Waiting() != 1 {
			t.Error("it does not wait for the port")
		}
		if r.run(100 * time.Millisecond); r.Waiting() != 0 || r.requests == nil {
			t.Error("the port does not serve")
		}
		test(t, r)
		stop()
		a.Wait()
		r.inbox.DoPending()
		if r.End(); r.requests != nil {
			t.Error("the port serves at the end")
		}
	})
}

// run runs the loop for a time.
func (r *rig) run(d time.Duration) {
	for range d / (10 * time.Millisecond) {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		r.inbox.DoPending()
		r.FindHosts(time.Now())
		r.Tick(time.Now())
	}
	synctest.Wait()
}

// hand delivers a MAD from the host.
func (r *rig) hand(attribute uint16, put func(body []byte)) {
	p := roce.Packet{
		Version: 2, Src: hostMAC, Dst: bridgeMAC, SrcIP: host, DstIP: node, HopLimit: 64, PKey: ib.PKeyDefault,
		DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI, Payload: make([]byte, ib.MADLen),
	}
	ib.PutMAD(p.Payload, ib.MADFields{Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: 1, AttrID: attribute})
	put(p.Payload[ib.MADHdrLen:])
	r.HandleMAD(0, p.AppendTo(nil), time.Now())
	r.run(100 * time.Millisecond)
}

// take returns the bodies of the MADs that were sent since the last call.
func (r *rig) take(t *testing.T, attribute uint16) (bodies [][]byte) {
	t.Helper()
	for _, b := range r.sent {
		p, err := roce.Parse(b)
		m, ok := ib.AsMAD(p.Payload)
		if err != nil || !ok || m.AttrID() != attribute || p.SrcIP != node || p.DstIP != host || p.Dst != hostMAC {
			t.Errorf("sent %+v, %v", p, err)
			continue
		}
		bodies = append(bodies, p.Payload[ib.MADHdrLen:])
	}
	r.sent = nil
	return bodies
}

// TestRoCEToIB checks that a request is passed on once, gets the same answer each time that it is sent, and that one
// for another port is rejected.
func TestRoCEToIB(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		request := func(id uint32, port uint16) func([]byte) {
			return func(body []byte) {
				private := make([]byte, ib.SIDRReqPrivateLen)
				ib.PutCMAHeader(private, ib.CMAFields{SrcPort: 50000, Src: host, Dst: node})
				ib.PutSIDRReq(body, ib.SIDRReqFields{
					RequestID: id, PKey: ib.PKeyDefault, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, port), Private: private,
				})
			}
		}
		for range 2 {
			r.hand(ib.AttrSIDRReq, request(1, servicePort))
			got := r.take(t, ib.AttrSIDRRep)
			if len(got) != 1 {
				t.Fatalf("%d answers", len(got))
			}
			if rep, _ := ib.AsSIDRRep(got[0]); rep.Status() != ib.SIDRStatusOK || rep.QPN() != answer.QPN || rep.QKey() != answer.QKey {
				t.Errorf("answered %x", got[0])
			}
		}
		r.hand(ib.AttrSIDRReq, request(2, 1))
		if rep, _ := ib.AsSIDRRep(r.take(t, ib.AttrSIDRRep)[0]); rep.Status() != ib.SIDRStatusUnsupported {
			t.Errorf("status %d for another port", rep.Status())
		}
		if len(r.connects) != 1 || r.connects[0].ToGID != nodeGID || r.connects[0].SrcPort != 50000 {
			t.Errorf("passed on %+v", r.connects)
		}
		if c := r.Counts()[roceToIB]; c[sidr.Answered] != 1 || c[sidr.Repeated] != 1 || c[sidr.Unsupported] != 1 {
			t.Errorf("counted %v", c)
		}
	})
}

// TestIBToRoCE checks that a host is asked, again when the request is lost, and that the node gets the proxy QP.
func TestIBToRoCE(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.known = false
		var got ibside.ServiceAnswer
		go r.requests(ibside.ServiceRequest{
			From: node, To: host, SrcPort: 40000, Port: servicePort, PKey: 0x8001,
			Answer: func(a ibside.ServiceAnswer) error { got = a; return nil },
			Reject: func(status uint8, _ []byte) error { t.Errorf("rejected with %d", status); return nil },
		})
		r.run(1500 * time.Millisecond)
		if r.asked != 2 || len(r.sent) != 0 || r.Pending() != [2]int{0, 1} {
			t.Errorf("asked for the host %d times, sent %d, pending %v", r.asked, len(r.sent), r.Pending())
		}
		if list := r.Requests(time.Now()); len(list) != 1 || list[0].From != node || list[0].Waits != "the host's MAC address" {
			t.Errorf("%+v", list)
		}
		r.known = true
		r.HostsLearned()
		r.run(1500 * time.Millisecond)
		sent := r.take(t, ib.AttrSIDRReq)
		if len(sent) != 2 {
			t.Fatalf("sent %d times", len(sent))
		}
		req, _ := ib.AsSIDRReq(sent[0])
		f := req.Fields()
		r.hand(ib.AttrSIDRRep, func(body []byte) {
			ib.PutSIDRRep(body, ib.SIDRRepFields{RequestID: f.RequestID, QPN: 0x123, ServiceID: f.ServiceID, QKey: 0x1ee7})
		})
		if got.QPN != 0x789 || got.QKey != 0x1ee7 || r.Pending() != [2]int{} {
			t.Errorf("answered %+v, pending %v", got, r.Pending())
		}
		if c := r.Counts()[ibToRoCE]; c[sidr.Answered] != 1 || c[sidr.Resent] != 1 {
			t.Errorf("counted %v", c)
		}
	})
}

// TestAwaitedNodes checks that requests of nodes that are still to be learned leave room for others', whoever they are said to be of.
func TestAwaitedNodes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.learns = true
		var rejected atomic.Int64
		request := func(from netip.Addr, sender string) {
			go r.requests(ibside.ServiceRequest{
				From: from, To: host, SrcPort: 40000, Port: servicePort, PKey: 0x8001, Sender: sender,
				Answer: func(ibside.ServiceAnswer) error { return nil },
				Reject: func(uint8, []byte) error { rejected.Add(1); return nil },
			})
		}
		addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, byte(1 + n/250), byte(1 + n%250)}) }
		for n := range 100 {
			request(addr(n), "LID 9")
		}
		if r.run(50 * time.Millisecond); len(r.wanted) != 16 || rejected.Load() != 84 {
			t.Errorf("one sender: %d nodes are learned, %d requests rejected", len(r.wanted), rejected.Load())
		}
		for n := range 1500 {
			request(addr(100+n), fmt.Sprint("LID ", 10+n))
		}
		if r.run(100 * time.Millisecond); len(r.wanted) != sidr.PendingMost/4 {
			t.Errorf("many senders: %d nodes are learned", len(r.wanted))
		}
		request(node, "LID 7")
		if r.run(50 * time.Millisecond); r.Pending() != [2]int{0, 1} {
			t.Errorf("a node that is known: pending %v", r.Pending())
		}
		r.run(3 * time.Second)
		clear(r.wanted)
		request(addr(5000), "LID 9")
		if r.run(50 * time.Millisecond); len(r.wanted) != 1 {
			t.Error("the room has not come back")
		}
		r.run(3 * time.Second)
	})
}
