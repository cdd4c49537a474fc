// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
)

const (
	mostAsked    = 2048
	mostBySource = 512
	atPortByHost = 64
	answersKept  = 16384
)

// manyNodes makes n more nodes.
func manyNodes(n int) func(*manageConfig, *services) {
	return func(c *manageConfig, cm *services) {
		knowing(2)(c, cm)
		for i := range n {
			c.Nodes = append(c.Nodes, manage.Node{IP4: nodeAddr(i), GID: gid(uint64(100 + i)), LID: ib.LID(100 + i)})
		}
	}
}

func nodeAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)}) }

// TestManyHosts checks that the requests under way are bounded, for each host and in total, and that their room is free
// afterwards.
func TestManyHosts(t *testing.T) {
	bubble(t, "many", func(t *testing.T) {
		release := make(chan struct{})
		s := startServices(t, func(_ *manageConfig, cm *services) {
			cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				<-release
				return nodeAnswer, nil
			}
		})
		request := func(host, n int) {
			src := netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + host)})
			s.w.give(manage.Punted{Data: ask(src, node4, func(q *question) { q.fields.RequestID = uint32(n) }).frame()})
		}
		for n := range mostBySource + 20 {
			request(0, n)
		}
		s.settle()
		want := manage.ServiceCounts{sidr.BusySource: 20}
		s.want(roceToIB, want)
		for host := 1; host < 5; host++ {
			for n := range mostBySource {
				request(host, n)
			}
			s.settle()
		}
		want[sidr.Busy] = 5*mostBySource - mostAsked
		s.want(roceToIB, want)
		if s.cm.busiest != 4*atPortByHost || s.loop.Status().Asked != [2]int{mostAsked, 0} || len(s.w.take()) != 0 {
			t.Errorf("the port was asked for %d at a time, %v are under way", s.cm.busiest, s.loop.Status().Asked)
		}
		close(release)
		s.settle()
		want[sidr.Answered] = mostAsked
		s.want(roceToIB, want)
		if n := len(s.w.take()); n != mostAsked || s.loop.Status().Asked != [2]int{} {
			t.Errorf("%d answers, %v are under way", n, s.loop.Status().Asked)
		}
		request(0, mostBySource+5) // one that was rejected asks again
		s.settle()
		want[sidr.Answered]++
		s.want(roceToIB, want)
	})
}

// TestHostsShare has a host ask for more than a port has under way, of a node that does not answer: the port has few of
// these at a time, another host is answered meanwhile, and each request ends in time.
func TestHostsShare(t *testing.T) {
	bubble(t, "share", func(t *testing.T) {
		const portsMost = 512
		s := startServices(t, func(_ *manageConfig, cm *services) {
			cm.connect = func(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				if c.From == host4 {
					<-ctx.Done()
					return ibside.ServiceAnswer{}, ctx.Err()
				}
				return nodeAnswer, nil
			}
		})
		for n := range portsMost {
			s.w.give(manage.Punted{Data: ask(host4, node4, func(q *question) { q.fields.RequestID = uint32(n) }).frame()})
		}
		s.after(time.Second)
		if s.cm.busiest != atPortByHost || s.loop.Status().Asked[roceToIB] != portsMost {
			t.Errorf("one host has %d requests at the port, want %d; %v are under way", s.cm.busiest, atPortByHost, s.loop.Status().Asked)
		}
		other := netip.AddrFrom4([4]byte{10, 9, 0, 77})
		if got := s.asks(ask(other, node4, func(q *question) { q.fields.RequestID = 9999 })); got != ib.SIDRStatusOK {
			t.Errorf("another host's request has status %d", got)
		}
		s.w.take()
		s.after(35 * time.Second) // the port is asked for 30 s
		if n := len(s.datagrams(s.w.take(), nil)); n != portsMost || s.loop.Status().Asked != [2]int{} {
			t.Errorf("%d of %d requests have ended, %v are under way", n, portsMost, s.loop.Status().Asked)
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.Answered: 1, sidr.TimedOut: portsMost})
	})
}

// TestNoRoomForQPs checks that a host is told of as many services as it can have proxy QPs for, and then that there is
// no queue pair: what its programs sent would not cross. A service that the node does not have takes no room.
func TestNoRoomForQPs(t *testing.T) {
	bubble(t, "no room", func(t *testing.T) {
		const most = 64
		s := startServices(t, func(c *manageConfig, cm *services) {
			c.ProxyQPs, c.ProxyQPLimits.PerHost = 2*most, most
			cm.connect = func(_ context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				if c.Port == 8000 {
					return ibside.ServiceAnswer{}, &ibside.Rejected{Status: ib.SIDRStatusUnsupported}
				}
				return nodeAnswer, nil
			}
		})
		id := uint32(0)
		asks := func(port uint16, src uint16) int {
			id++
			return s.asks(ask(host4, node4, func(q *question) {
				q.fields.RequestID, q.fields.ServiceID, q.cma.SrcPort = id, ib.ServiceIDFromPort(ib.PortSpaceUDP, port), src
			}))
		}
		if got := asks(8000, 1); got != ib.SIDRStatusUnsupported {
			t.Errorf("a service that the node does not have: status %d", got)
		}
		for i := range most {
			if got := asks(7174, uint16(100+i)); got != ib.SIDRStatusOK {
				t.Fatalf("connection %d: status %d", i, got)
			}
		}
		if got := asks(7174, 100); got != ib.SIDRStatusOK {
			t.Errorf("another service of the same program: status %d", got)
		}
		const more = mostBySource + 1 // none of which keeps a place among the requests that are under way
		for i := range more {
			if got, asked := asks(7174, uint16(1000+i)), s.cm.connects(); got != ib.SIDRStatusNoQP || asked != most+2 {
				t.Fatalf("%d too many: status %d; the node was asked %d times", i+1, got, asked)
			}
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.Answered: most + 1, sidr.NoProxyQP: more, sidr.Refused: 1})
	})
}

// TestManyNodes checks the same for requests of nodes. RequestIDs must differ.
func TestManyNodes(t *testing.T) {
	bubble(t, "many", func(t *testing.T) {
		s := startServices(t, manyNodes(8))
		var all []*asker
		for n := range mostBySource + 2 {
			all = append(all, s.requestLater(nodeAddr(0), n))
		}
		s.settle()
		s.want(ibToRoCE, manage.ServiceCounts{sidr.BusySource: 2})
		for node := 1; node < 5; node++ {
			for n := range mostBySource {
				all = append(all, s.requestLater(nodeAddr(node), n))
			}
			s.settle()
		}
		s.want(ibToRoCE, manage.ServiceCounts{sidr.BusySource: 2, sidr.Busy: 5*mostBySource - mostAsked})
		rejected := 0
		for _, a := range all {
			if a.rejectedWith(ib.SIDRStatusNoQP) {
				rejected++
			} else if !a.waits() {
				t.Fatalf("%+v", a)
			}
		}
		if rejected != 2+5*mostBySource-mostAsked || s.loop.Status().Asked != [2]int{0, mostAsked} {
			t.Errorf("%d are rejected, %v are under way", rejected, s.loop.Status().Asked)
		}
		ids := map[uint32]bool{}
		for _, d := range s.datagrams(s.w.take(), nil) {
			ids[d.req.RequestID()] = true
			s.w.give(manage.Punted{Data: d.answer()})
		}
		s.settle()
		if len(ids) != mostAsked || s.ibPort.open() != 1 {
			t.Errorf("%d RequestIDs for %d requests, %d proxy QPs", len(ids), mostAsked, s.ibPort.open())
		}
		if s.count(); s.loop.Status().Asked != [2]int{} {
			t.Errorf("%v are under way at the end", s.loop.Status().Asked)
		}
		if got := s.served(host4, 0x123, 0x5e4f1ce).qpn(); got != 0x1001 {
			t.Errorf("after that, no request is served: %v", got)
		}
	})
}

// TestSenderPays checks that a node which names others in its requests uses up its own quota, and not theirs.
func TestSenderPays(t *testing.T) {
	bubble(t, "forged", func(t *testing.T) {
		s := startServices(t, manyNodes(8))
		for n := range 3 * mostBySource {
			s.requestLater(nodeAddr(n%3), n, func(r *ibside.ServiceRequest) { r.Sender = "LID 9" })
		}
		s.settle()
		s.want(ibToRoCE, manage.ServiceCounts{sidr.BusySource: 2 * mostBySource})
		for node := range 3 {
			s.requestLater(nodeAddr(node), node, func(r *ibside.ServiceRequest) { r.Sender = fmt.Sprint("LID ", node) })
		}
		s.settle()
		s.want(ibToRoCE, manage.ServiceCounts{sidr.BusySource: 2 * mostBySource})
		if asked := s.loop.Status().Asked[ibToRoCE]; asked != mostBySource+3 {
			t.Errorf("%d are under way", asked)
		}
		for _, d := range s.datagrams(s.w.take(), nil) {
			s.w.give(manage.Punted{Data: d.answer()})
		}
		s.settle()
	})
}

// requestLater is request without waiting for the result.
func (s *serviceRig) requestLater(node netip.Addr, n int, edit ...func(*ibside.ServiceRequest)) *asker {
	a := &asker{}
	r := ibside.ServiceRequest{
		From: node, To: host4, SrcPort: uint16(n), Port: 7174, PKey: 0x8001,
		Answer: func(x ibside.ServiceAnswer) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.answers = append(a.answers, x)
			return nil
		},
		Reject: func(status uint8, _ []byte) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.rejected = append(a.rejected, status)
			return nil
		},
	}
	for _, f := range edit {
		f(&r)
	}
	go s.cm.h(r)
	return a
}

// TestAnswersBounded checks that the answers that are kept are the last ones.
func TestAnswersBounded(t *testing.T) {
	bubble(t, "bounded", func(t *testing.T) {
		s := startServices(t, nil)
		request := func(n int) {
			s.w.give(manage.Punted{Data: ask(host4, node4, func(q *question) { q.fields.RequestID = uint32(n) }).frame()})
		}
		for n := range answersKept + 401 { // answers to 0, and to 1 to 400, in any order, are let go
			request(n)
			if n%400 == 0 {
				s.settle()
				s.w.take()
			}
		}
		s.settle()
		for _, c := range []struct {
			n, connects int
		}{{answersKept + 400, 0}, {401, 0}, {400, 1}, {0, 1}} {
			before := s.cm.connects()
			request(c.n)
			s.settle()
			if got := s.cm.connects() - before; got != c.connects {
				t.Errorf("request %d again: the port was asked %d times more, want %d", c.n, got, c.connects)
			}
		}
	})
}

// TestServiceFlood checks that each request of a flood is counted, that nothing is left afterwards, and that others are
// served meanwhile.
func TestServiceFlood(t *testing.T) {
	bubble(t, "flood", func(t *testing.T) {
		const flood = 300_000
		s := startServices(t, func(c *manageConfig, cm *services) {
			c.ProxyQPs = 256 // one for each host
			cm.connect = func(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				if c.From == host6 {
					return nodeAnswer, nil
				}
				return silent(ctx, c)
			}
		})
		n, size := 0, [2]uint64{}
		frames := [][]byte{
			ask(host4, node4).frame(), ask(host4, bridge4).frame(), ask(netip.MustParseAddr("10.9.0.200"), node4).frame(),
			ask(host4, node4, func(q *question) { q.cma.Dst = bridge4 }).frame(),
		}
		s.w.mu.Lock()
		s.w.more = func() *manage.Punted {
			if n == flood/3 || n == flood {
				size[n/flood] = heapNow()
			}
			if n++; n > flood {
				return nil
			}
			if n%1000 == 0 {
				s.w.sent = nil
				time.Sleep(time.Millisecond)
			}
			if n == flood/2 { // a request that is served
				return &manage.Punted{Data: ask(host6, node6).frame()}
			}
			if n%4 == 0 { // each a new request
				src := netip.AddrFrom4([4]byte{10, 9, 0, byte(n / 4 % 120)})
				return &manage.Punted{Data: ask(src, node4, func(q *question) { q.fields.RequestID = uint32(n) }).frame()}
			}
			return &manage.Punted{Data: frames[n/4%len(frames)]}
		}
		s.w.mu.Unlock()
		s.after(time.Second)
		c := s.count().Services[roceToIB]
		var sum uint64
		for _, k := range c {
			sum += k
		}
		if got := s.loop.Status().Asked[roceToIB]; sum+uint64(got) != flood || got != mostAsked || c[sidr.Busy] == 0 {
			t.Errorf("%d requests have ended by name and %d are under way, of %d: %v", sum, got, flood, c)
		}
		if size[1] > size[0]+2<<20 {
			t.Errorf("%d KiB after a third of the flood, %d KiB after all of it", size[0]>>10, size[1]>>10)
		}
		s.after(31 * time.Second)
		if s.count(); s.loop.Status().Asked != [2]int{} {
			t.Errorf("%v are under way", s.loop.Status().Asked)
		}
	})
}

// TestServing checks that requests are taken as soon as the port can, and that none is left at the end.
func TestServing(t *testing.T) {
	bubble(t, "the port cannot at first", func(t *testing.T) {
		s := startServices(t, func(_ *manageConfig, cm *services) { cm.serveErr = errors.New("the port is another's") })
		if s.loop.Status().Ready || s.log.count("services_not_served") == 0 {
			t.Error("ready")
		}
		s.cm.mu.Lock()
		s.cm.serveErr = nil
		s.cm.mu.Unlock()
		s.after(time.Second)
		if !s.loop.Status().Ready || fmt.Sprint(s.cm.ports) != "[{7174 7174} {8000 8010}]" {
			t.Errorf("not ready; the port serves %v", s.cm.ports)
		}
	})
	bubble(t, "the end", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) { knowing(2)(c, cm); cm.connect = silent })
		a := s.request(node4, host4)
		s.give(ask(host6, node6).frame())
		h := s.cm.h
		if err := s.end(); err != nil {
			t.Error(err)
		}
		if !a.rejectedWith(ib.SIDRStatusNoQP) || s.cm.h != nil || s.cm.busy != 0 {
			t.Errorf("at the end: %+v, the port serves %v, %d requests are under way there", a, s.cm.ports, s.cm.busy)
		}
		s.cm.h = h // the port was about to
		if late := s.request(node4, host4); !late.rejectedWith(ib.SIDRStatusNoQP) {
			t.Errorf("after the end: %+v", late)
		}
	})
	for range 10 { // it is chance which of the two the loop takes first
		bubble(t, "the end comes before the beginning", func(t *testing.T) {
			s := startServices(t, func(_ *manageConfig, cm *services) { cm.serving = time.Second })
			if err := s.end(); err != nil {
				t.Error(err)
			}
			if s.cm.serves != 2 || s.cm.h != nil {
				t.Errorf("the port still serves, after %d calls", s.cm.serves)
			}
		})
	}
	bubble(t, "no services", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, _ *services) { c.Ports = nil })
		if s.cm.serves != 0 || s.asks(ask(host4, node4)) != 1 {
			t.Errorf("the port was told %d times to serve nothing", s.cm.serves)
		}
	})
}
