// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

var (
	firstPorts  = []ibside.PortRange{{First: 7174, Last: 7174}, {First: 8000, Last: 8010}}
	secondPorts = []ibside.PortRange{{First: 8005, Last: 8020}, {First: 9000, Last: 9000}}
)

// startSegmentServices starts a bridge with services in two segments. The host of the usual address is known in both.
func startSegmentServices(t *testing.T, edit func(*manageConfig)) *serviceRig {
	t.Helper()
	cm := &services{connect: answering}
	s := startWith(t, smallTables, func(c *manageConfig, p *ibPort) {
		twoSegments(c, p)
		c.Services, c.RoCEPKey = cm, ib.PKeyDefault
		known := staticHost(host4)
		c.Ports, c.Allow, c.Hosts = firstPorts, everyone, []tables.Host{known}
		known.VLAN = secondVLAN
		c.More[0].Ports, c.More[0].Allow, c.More[0].Hosts = firstPorts, everyone, []tables.Host{known}
		if edit != nil {
			edit(c)
		}
	})
	return &serviceRig{s, cm}
}

func inSecondVLAN(q *question) { q.Tag = &frame.VLANFields{VID: secondVLAN} }

func toService(port uint16) func(*question) {
	return func(q *question) { q.fields.ServiceID = ib.ServiceIDFromPort(ib.PortSpaceUDP, port) }
}

// TestSegmentServices checks that hosts of one address ask, and are asked, each in its partition, and that no request and
// no answer crosses to the other.
func TestSegmentServices(t *testing.T) {
	bubble(t, "from RoCE", segmentHostsAsk)
	bubble(t, "from InfiniBand", segmentNodesAsk)
	bubble(t, "from InfiniBand, of an only segment", onlySegmentNodesAsk)
	bubble(t, "an answer on the other VLAN", segmentAnswersStay)
	bubble(t, "services of one", segmentServicesOfOne)
	bubble(t, "services of one that goes and comes", segmentServicesCome)
	bubble(t, "policy of one", segmentPolicyOfOne)
	bubble(t, "translation of one", segmentTranslates)
}

func segmentHostsAsk(t *testing.T) {
	s := startSegmentServices(t, nil)
	for _, c := range []struct {
		to     netip.Addr
		second bool
		status int
		pkey   ib.PKey
	}{
		{inFirst, false, 0, firstPKey}, {inSecond, true, 0, secondPKey}, {node4, false, 0, firstPKey}, {node4, true, 0, secondPKey},
		{inSecond, false, -1, 0}, {inFirst, true, -1, 0},
	} {
		q := ask(host4, c.to)
		vlan := uint16(0)
		if c.second {
			vlan = secondVLAN
			inSecondVLAN(q)
		}
		before := len(s.cm.asked)
		got := s.datagrams(s.give(q.frame()), nil)
		if c.status < 0 {
			if len(got) != 0 || len(s.cm.asked) != before {
				t.Errorf("%v on VLAN %d: answered, or asked", c.to, vlan)
			}
			continue
		}
		if len(got) != 1 || got[0].rep.Status() != uint8(c.status) || got[0].DstIP != host4 || tagOf(got[0]) != vlan {
			t.Fatalf("%v on VLAN %d: answered %+v", c.to, vlan, got)
		}
		if a := s.cm.asked[before:]; len(a) != 1 || a[0].PKey != c.pkey {
			t.Errorf("%v on VLAN %d: asked %+v, want P_Key %v", c.to, vlan, a, c.pkey)
		}
	}
}

func tagOf(d datagram) uint16 {
	if d.Tag == nil {
		return 0
	}
	return d.Tag.VID
}

// named is a request that names a partition.
func named(k ib.PKey) func(*ibside.ServiceRequest) {
	return func(r *ibside.ServiceRequest) { r.PKey = k }
}

func segmentNodesAsk(t *testing.T) {
	s := startSegmentServices(t, nil)
	for _, c := range []struct {
		what string
		from netip.Addr
		pkey ib.PKey
	}{
		{"a node of the first, in the second", inFirst, secondPKey},
		{"a node of the second, in the first", inSecond, firstPKey},
		{"a node without a partition, in the first", node4, firstPKey},
		{"a node without a partition, in the second", node4, secondPKey},
		{"in a partition that the port does not know", inFirst, 0},
		{"in a partition of nobody", inFirst, 0x8003},
		{"in the default partition", inFirst, ib.PKeyDefault},
		{"nobody, in the first", netip.MustParseAddr("10.9.0.99"), firstPKey},
	} {
		if a := s.request(c.from, host4, named(c.pkey)); !a.rejectedWith(ib.SIDRStatusRejected) || len(s.w.take()) != 0 {
			t.Errorf("%s: not rejected, or a host was asked", c.what)
		}
	}
	for _, c := range []struct {
		from netip.Addr
		pkey ib.PKey
		vlan uint16
	}{{inFirst, firstPKey, 0}, {inSecond, secondPKey, secondVLAN}} {
		a := s.request(c.from, host4, named(c.pkey))
		d := s.asked()
		if d.SrcIP != c.from || d.DstIP != host4 || tagOf(d) != c.vlan {
			t.Errorf("asked %+v, want VLAN %d", d.Packet, c.vlan)
		}
		s.give(d.answer(func(x *answer) { x.Tag = d.Tag }))
		answers, _ := a.ends()
		if len(answers) != 1 {
			t.Fatalf("%v: not answered", c.from)
		}
		list, err := s.loop.Lists().ListProxyQPs(t.Context(), manage.Query{})
		i := slices.IndexFunc(list.Entries, func(x manage.ProxyQPEntry) bool { return x.QPN == answers[0].QPN })
		if err != nil || i < 0 || list.Entries[i].Host != host4 || list.Entries[i].PKey != c.pkey || (list.Entries[i].Segment == 1) != (c.vlan != 0) {
			t.Errorf("%v was given %+v of %+v, %v", c.from, answers[0], list.Entries, err)
		}
	}
}

// onlySegmentNodesAsk has nodes ask hosts of an only segment, which has a partition: that is the only one that they can ask in.
func onlySegmentNodesAsk(t *testing.T) {
	s := startSegmentServices(t, func(c *manageConfig) { c.More = nil })
	for _, from := range []netip.Addr{node4, inFirst} {
		for _, k := range []ib.PKey{ib.PKeyDefault, secondPKey} {
			if a := s.request(from, host4, named(k)); !a.rejectedWith(ib.SIDRStatusRejected) || len(s.w.take()) != 0 {
				t.Errorf("%v in %v: not rejected, or a host was asked", from, k)
			}
		}
		s.request(from, host4, named(firstPKey))
		if d := s.asked(); d.SrcIP != from || d.DstIP != host4 {
			t.Errorf("asked %+v", d.Packet)
		}
	}
}

// segmentAnswersStay has the host of the other segment answer with what only the asked one can know.
func segmentAnswersStay(t *testing.T) {
	s := startSegmentServices(t, nil)
	a := s.request(inFirst, host4, named(firstPKey))
	d := s.asked()
	s.give(d.answer(func(x *answer) { x.Tag = &frame.VLANFields{VID: secondVLAN} }))
	if !a.waits() || s.count().Services[ibToRoCE][sidr.Unmatched] != 1 {
		t.Errorf("counted %v", s.count().Services[ibToRoCE])
	}
	s.give(d.answer())
	if answers, _ := a.ends(); len(answers) != 1 {
		t.Error("the asked host's answer was not taken")
	}
}

// bothPorts are those that the port serves for a segment with firstPorts and one with secondPorts.
var bothPorts = []ibside.PortRange{{First: 7174, Last: 7174}, {First: 8000, Last: 8020}, {First: 9000, Last: 9000}}

// wantPorts compares what the port serves.
func (s *serviceRig) wantPorts(when string, ports []ibside.PortRange) {
	s.t.Helper()
	s.settle()
	s.cm.mu.Lock()
	defer s.cm.mu.Unlock()
	if !slices.Equal(s.cm.ports, ports) {
		s.t.Errorf("%s: the port serves %v, want %v", when, s.cm.ports, ports)
	}
}

func segmentServicesOfOne(t *testing.T) {
	s := startSegmentServices(t, func(c *manageConfig) { c.More[0].Ports = secondPorts })
	s.wantPorts("at the start", bothPorts)
	for port, in := range map[uint16][2]bool{7174: {true, false}, 8000: {true, false}, 8005: {true, true}, 8015: {false, true}, 9000: {false, true}} {
		for i, serves := range in {
			q, from, k := ask(host4, inFirst, toService(port)), inFirst, firstPKey
			if i == 1 {
				q, from, k = ask(host4, inSecond, toService(port), inSecondVLAN), inSecond, secondPKey
			}
			if status := s.asks(q); serves != (status == 0) {
				t.Errorf("port %d in segment %d: status %d", port, i, status)
			}
			a := s.request(from, host4, named(k), func(r *ibside.ServiceRequest) { r.Port = port })
			if asked := len(s.w.take()); serves != (asked == 1) || serves == a.rejectedWith(ib.SIDRStatusUnsupported) {
				t.Errorf("port %d in segment %d: %d hosts were asked", port, i, asked)
			}
		}
	}
	c := changeOf(s.cfg)
	c.Ports = nil
	if err := s.loop.Change(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	s.wantPorts("without the first's", secondPorts)
	if a := s.request(inFirst, host4, named(firstPKey), func(r *ibside.ServiceRequest) { r.Port = 9000 }); !a.rejectedWith(ib.SIDRStatusRejected) {
		t.Error("a segment without services has one")
	}
	c.More[0].Ports = nil
	if err := s.loop.Change(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	s.wantPorts("without any", nil)
}

// segmentServicesCome removes the second segment, and adds it with services and a policy of its own.
func segmentServicesCome(t *testing.T) {
	s := startSegmentServices(t, func(c *manageConfig) { c.More[0].Ports = secondPorts })
	s.wantPorts("at the start", bothPorts)
	s.changeTo(t, func(c *manage.Change) { c.More = nil })
	s.wantPorts("without the second", firstPorts)
	if a := s.request(inSecond, host4, named(secondPKey)); !a.rejectedWith(ib.SIDRStatusRejected) || len(s.w.take()) != 0 {
		t.Error("a node of the removed segment's partition is served")
	}
	if status := s.asks(ask(host4, inFirst)); status != 0 {
		t.Errorf("in the segment that stays: status %d", status)
	}
	s.changeTo(t, func(c *manage.Change) {
		c.More[0].Allow = []netip.Prefix{netip.PrefixFrom(other4, 32)}
	})
	s.wantPorts("with the second again", bothPorts)
	for _, c := range []struct {
		q      *question
		serves bool
	}{
		{ask(other4, inSecond, inSecondVLAN, toService(9000)), true}, {ask(host4, inSecond, inSecondVLAN, toService(9000)), false},
		{ask(other4, inSecond, inSecondVLAN, toService(7174)), false}, {ask(host4, inFirst, toService(8000)), true},
		{ask(host4, inFirst, toService(9000)), false},
	} {
		if status := s.asks(c.q); c.serves != (status == 0) {
			t.Errorf("%v to %v, service %x: status %d", c.q.SrcIP, c.q.DstIP, c.q.fields.ServiceID, status)
		}
	}
	if a := s.request(inSecond, host4, named(secondPKey), func(r *ibside.ServiceRequest) { r.Port = 9000 }); !a.rejectedWith(ib.SIDRStatusRejected) {
		t.Error("a host that the new segment does not allow was asked")
	}
}

func segmentPolicyOfOne(t *testing.T) {
	s := startSegmentServices(t, func(c *manageConfig) {
		c.Allow, c.More[0].Allow = []netip.Prefix{netip.PrefixFrom(host4, 32)}, []netip.Prefix{netip.PrefixFrom(other4, 32)}
	})
	for _, c := range []struct {
		q      *question
		status int
	}{
		{ask(host4, inFirst), 0}, {ask(host4, inSecond, inSecondVLAN), ib.SIDRStatusRejected},
		{ask(other4, inFirst), ib.SIDRStatusRejected}, {ask(other4, inSecond, inSecondVLAN), 0},
	} {
		if status := s.asks(c.q); status != c.status {
			t.Errorf("%v to %v: status %d, want %d", c.q.SrcIP, c.q.DstIP, status, c.status)
		}
	}
	if a := s.request(inSecond, host4, named(secondPKey)); !a.rejectedWith(ib.SIDRStatusRejected) {
		t.Error("a host that its segment does not allow was asked")
	}
	c := changeOf(s.cfg) // which allows all
	if err := s.loop.Change(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	if status := s.asks(ask(host4, inSecond, inSecondVLAN, func(q *question) { q.fields.RequestID++ })); status != 0 {
		t.Errorf("allowed: status %d", status)
	}
}

func segmentTranslates(t *testing.T) {
	by := func(there string) ib.Translations {
		return ib.Translations{{RoCE: netip.MustParsePrefix("10.9.0.0/24"), IB: netip.MustParsePrefix(there)}}
	}
	s := startSegmentServices(t, func(c *manageConfig) { c.Translate, c.More[0].Translate = by("10.10.9.0/24"), by("10.11.9.0/24") })
	s.asks(ask(host4, inFirst))
	s.asks(ask(host4, inSecond, inSecondVLAN))
	if a := s.cm.asked; len(a) != 2 || a[0].From != netip.MustParseAddr("10.10.9.1") || a[0].To != netip.MustParseAddr("10.10.9.30") ||
		a[1].From != netip.MustParseAddr("10.11.9.1") || a[1].To != netip.MustParseAddr("10.11.9.31") {
		t.Errorf("asked %+v", a)
	}
	s.w.take()
	there := netip.MustParseAddr("10.10.9.1")
	if a := s.request(netip.MustParseAddr("10.11.9.31"), there, named(secondPKey)); !a.rejectedWith(ib.SIDRStatusUnsupported) || len(s.w.take()) != 0 {
		t.Error("an address of the other segment's translation was asked")
	}
	s.request(netip.MustParseAddr("10.10.9.30"), there, named(firstPKey))
	if d := s.asked(); d.SrcIP != inFirst || d.DstIP != host4 || tagOf(d) != 0 {
		t.Errorf("asked %+v", d.Packet)
	}
}
