// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
)

// onIB translates the addresses of these tests to those on InfiniBand.
var onIB = ib.Translations{
	{RoCE: netip.MustParsePrefix("10.9.0.0/24"), IB: netip.MustParsePrefix("10.10.9.0/24")},
	{RoCE: netip.MustParsePrefix("fd09::/64"), IB: netip.MustParsePrefix("fd10:1::/64")},
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// translating configures a bridge that knows the hosts, and gives them other addresses on InfiniBand.
func translating(c *manageConfig, cm *services) {
	knowing(2)(c, cm)
	c.Translate = onIB
}

// agrees checks what a server on Ethernet relies on: that rdma_cm's header has the same addresses as the IP header.
// Linux looks for a route to the former (drivers/infiniband/core/cma.c, validate_net_dev), shows it to programs, and
// answers the latter.
func (d *datagram) agrees(t *testing.T, from, to netip.Addr) {
	t.Helper()
	cma, ok := ib.AsCMAHeader(d.req.Private())
	if !ok || cma.Src() != d.SrcIP || cma.Dst() != d.DstIP || d.SrcIP != from || d.DstIP != to {
		t.Errorf("IP says %v to %v, rdma_cm's header %v to %v, want %v to %v", d.SrcIP, d.DstIP, cma.Src(), cma.Dst(), from, to)
	}
}

// TestTranslatedToNode checks that a RoCE host's request reaches a node with the addresses that nodes know, and that
// its answer comes from the address that it asked.
func TestTranslatedToNode(t *testing.T) {
	for _, c := range []struct {
		name         string
		src, dst     netip.Addr
		ibSrc, ibDst string
		edit         func(*manageConfig)
	}{
		{"IPv4", host4, node4, "10.10.9.1", "10.10.9.7", nil},
		{"IPv6", host6, node6, "fd10:1::1", "fd10:1::7", nil},
		{"nodes alone", host4, node4, "10.9.0.1", "10.10.9.7", func(c *manageConfig) {
			c.Translate = ib.Translations{{RoCE: netip.PrefixFrom(node4, 32), IB: netip.MustParsePrefix("10.10.9.7/32")}}
		}},
		{"others alone", host4, node4, "10.9.0.1", "10.9.0.7", func(c *manageConfig) { c.Translate = onIB[1:] }},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, func(cfg *manageConfig, cm *services) {
				translating(cfg, cm)
				if c.edit != nil {
					c.edit(cfg)
				}
			})
			got := s.datagrams(s.give(ask(c.src, c.dst).frame()), nil)
			if len(s.cm.asked) != 1 || s.cm.asked[0].From != addr(c.ibSrc) || s.cm.asked[0].To != addr(c.ibDst) || s.cm.asked[0].ToGID != nodeGID {
				t.Errorf("the port was asked %+v", s.cm.asked)
			}
			if len(got) != 1 || got[0].rep.Status() != ib.SIDRStatusOK || got[0].SrcIP != c.dst || got[0].DstIP != c.src {
				t.Errorf("answered %+v", got)
			}
			s.want(roceToIB, only(sidr.Answered))
		})
	}
}

// TestTranslatedToHost checks that a node's request reaches a RoCE host with the addresses that hosts know.
func TestTranslatedToHost(t *testing.T) {
	for _, c := range []struct {
		name         string
		ibSrc, ibDst string
		src, dst     netip.Addr
	}{
		{"IPv4", "10.10.9.7", "10.10.9.1", node4, host4},
		{"IPv6", "fd10:1::7", "fd10:1::1", node6, host6},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, translating)
			a := s.request(addr(c.ibSrc), addr(c.ibDst))
			q := s.asked()
			q.agrees(t, c.src, c.dst)
			s.give(q.answer())
			if answers, _ := a.ends(); len(answers) != 1 || answers[0].QKey != 0x5e4f1ce || a.private[:13] != "from the host" {
				t.Errorf("answered %+v", answers)
			}
			s.want(ibToRoCE, only(sidr.Answered))
		})
	}
}

// TestUntranslated checks that hosts with the other side's addresses are rejected and counted, and named in the log.
func TestUntranslated(t *testing.T) {
	bubble(t, "nodes", func(t *testing.T) {
		s := startServices(t, translating)
		for n, r := range [][2]string{{"10.9.0.7", "10.10.9.1"}, {"10.10.9.7", "10.9.0.1"}, {"10.9.0.7", "10.9.0.1"}} {
			if a := s.request(addr(r[0]), addr(r[1])); !a.rejectedWith(ib.SIDRStatusRejected) {
				t.Errorf("%v to %v: %+v", r[0], r[1], a)
			}
			s.want(ibToRoCE, manage.ServiceCounts{sidr.Untranslated: uint64(n + 1)})
		}
		if s.log.count("why=untranslated from=10.9.0.7 to=10.10.9.1") != 1 {
			t.Errorf("the log:\n%s", &s.log.b)
		}
	})
	bubble(t, "hosts", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) {
			translating(c, cm)
			c.Allow = append(c.Allow, onIB[0].IB)
		})
		if got := s.asks(ask(addr("10.10.9.5"), node4)); got != int(ib.SIDRStatusRejected) || s.cm.connects() != 0 {
			t.Errorf("status %d, and the port was asked %+v", got, s.cm.asked)
		}
		s.want(roceToIB, only(sidr.Untranslated))
	})
}

// TestTranslatedLog checks that the log has the addresses of the configuration.
func TestTranslatedLog(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) {
			translating(c, cm)
			cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				return ibside.ServiceAnswer{}, &ibside.Rejected{Status: ib.SIDRStatusNoQP}
			}
		})
		s.give(ask(host4, node4).frame())
		s.request(addr("10.10.9.99"), addr("10.10.9.1"))
		for _, want := range []string{"service_failed from=10.9.0.1 to=10.9.0.7", "why=no_node from=10.9.0.99 to=10.9.0.1"} {
			if s.log.count(want) != 1 {
				t.Errorf("no %q in the log:\n%s", want, &s.log.b)
			}
		}
	})
}

// TestTranslateChange checks that a running bridge follows a change: new requests use the new addresses, and those
// under way are answered.
func TestTranslateChange(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := startServices(t, knowing(2))
		a := s.request(node4, host4)
		before := s.asked()
		change := func(ts ib.Translations) {
			t.Helper()
			c := changeOf(config())
			c.Ports, c.Translate = []ibside.PortRange{{First: 7174, Last: 7174}}, ts
			if err := s.loop.Change(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			s.settle()
		}
		change(onIB)
		s.give(before.answer())
		if answers, _ := a.ends(); len(answers) != 1 {
			t.Errorf("a request from before the change is answered %+v", answers)
		}
		if !s.request(node4, host4).rejectedWith(ib.SIDRStatusRejected) {
			t.Error("the old addresses are still translated")
		}
		b := s.request(addr("10.10.9.7"), addr("10.10.9.1"))
		after := s.asked()
		after.agrees(t, node4, host4)
		s.give(after.answer())
		if answers, _ := b.ends(); len(answers) != 1 {
			t.Errorf("answered %+v", answers)
		}
		change(nil)
		s.give(ask(host4, node4).frame())
		if n := len(s.cm.asked); n != 1 || s.cm.asked[0].From != host4 || s.cm.asked[0].To != node4 {
			t.Errorf("the port was asked %+v", s.cm.asked)
		}
	})
}

// TestTranslatedGID checks that a port's GID that is a host's address on InfiniBand is that host's source, as long as
// it is its address.
func TestTranslatedGID(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		there := ib.GIDFromAddr(addr("10.10.9.1"))
		s := startServices(t, func(c *manageConfig, cm *services) { translating(c, cm) })
		s.ibPort.setOwn(ibside.Own{LID: 4, GIDs: []ib.GID{ownGID, there, host4GID}, Sources: []ibside.Source{
			{Number: 0, GID: ownGID}, {Number: 3, GID: there}, {Number: 4, GID: host4GID},
		}})
		s.punt(hostLink, host4, 0x10)
		s.punt(hostLink, host5, 0x10)
		check := func(four, five uint8) {
			t.Helper()
			s.count()
			synctest.Wait()
			n := s.loop.Status().HostGIDs
			if s.source(host4) != four || s.source(host5) != five || (n == 1) != (four != 0) {
				t.Errorf("sources %d and %d, and %d hosts with a GID; want %d and %d", s.source(host4), s.source(host5), n, four, five)
			}
		}
		check(3, 0)
		for _, c := range []struct {
			to         string
			four, five uint8
		}{{"10.10.9.0/24", 3, 0}, {"10.9.0.0/24", 4, 0}, {"10.11.0.0/24", 0, 0}, {"10.10.9.0/24", 3, 0}} {
			s.change(func(x *manage.Change) {
				x.Translate = ib.Translations{{RoCE: netip.MustParsePrefix("10.9.0.0/24"), IB: netip.MustParsePrefix(c.to)}}
			})
			check(c.four, c.five)
		}
	})
}
