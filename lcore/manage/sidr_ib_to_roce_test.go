// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// knowing gives the bridge entries for the hosts of these tests.
func knowing(version uint8) func(*manageConfig, *services) {
	return func(c *manageConfig, _ *services) {
		for _, ip := range []netip.Addr{host4, host6} {
			c.Hosts = append(c.Hosts, tables.Host{IP: ip, MAC: hostMAC, Version: version, Static: true})
		}
	}
}

// asked takes the one request that the bridge has sent.
func (s *serviceRig) asked() datagram {
	s.t.Helper()
	got := s.datagrams(s.w.take(), nil)
	if len(got) != 1 || got[0].req == nil {
		s.t.Fatalf("%d datagrams were sent", len(got))
	}
	return got[0]
}

// An answer is a RoCE host's SIDR_REP, correct unless a test changes it.
type answer struct {
	roce.Packet
	tid    uint64
	fields ib.SIDRRepFields
}

func (d *datagram) answer(edit ...func(*answer)) []byte {
	a := answer{
		Packet: roce.Packet{
			Version: d.Version, Src: d.Dst, Dst: d.Src, SrcIP: d.DstIP, DstIP: d.SrcIP, HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault,
			DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI,
		},
		tid: d.mad.TID(),
		fields: ib.SIDRRepFields{
			RequestID: d.req.RequestID(), QPN: 0x123, ServiceID: d.req.ServiceID(), QKey: 0x5e4f1ce, Private: []byte("from the host"),
		},
	}
	for _, f := range edit {
		f(&a)
	}
	a.Payload = mad(ib.AttrSIDRRep, a.tid, func(b []byte) { ib.PutSIDRRep(b, a.fields) })
	return a.AppendTo(nil)
}

// TestServiceOfHost follows one request field by field.
func TestServiceOfHost(t *testing.T) {
	for _, c := range []struct {
		name       string
		node, host netip.Addr
		version    uint8
		vlan       uint16
		fleet      manage.Fleet
		from       netip.Addr // as the host is asked
	}{
		{"IPv4", node4, host4, 2, 0, nil, node4},
		{"IPv6", node6, host6, 2, 0, nil, node6},
		{"RoCEv1", node4, host4, 1, 0, nil, node4},
		{"RoCEv1, IPv6", node6, host6, 1, 0, nil, node6},
		{"VLAN", node4, host4, 2, 5, nil, node4},
		{"in a fleet", node4, host4, 2, 0, part{hostMAC: true}, node4},
		{"another bridge has the host", node4, host4, 2, 0, part{}, bridge4},
		{"another bridge has the host, IPv6", node6, host6, 2, 0, part{}, bridge6},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, func(cfg *manageConfig, cm *services) {
				knowing(c.version)(cfg, cm)
				cfg.VLAN, cfg.Fleet = c.vlan, c.fleet
			})
			a := s.request(c.node, c.host)
			d := s.asked()
			private := make([]byte, 216)
			ib.PutCMAHeader(private, ib.CMAFields{SrcPort: 40000, Src: c.node, Dst: c.host})
			copy(private[36:], "from the node")
			want := ib.SIDRReqFields{RequestID: d.req.RequestID(), PKey: 0xffff, ServiceID: 0x0000000001111c06, Private: private}
			if !reflect.DeepEqual(d.req.Fields(), want) {
				t.Errorf("asked %+v", d.req.Fields())
			}
			if d.Version != int(c.version) || d.Dst != hostMAC || d.SrcIP != c.from || d.DstIP != c.host ||
				(d.Tag != nil) != (c.vlan != 0) || d.Tag != nil && d.Tag.VID != c.vlan {
				t.Errorf("asked by %+v", d.Packet)
			}
			if s.count(); !a.waits() || s.loop.Status().Asked != [2]int{0, 1} {
				t.Errorf("answered before there was an answer; under way: %v", s.loop.Status().Asked)
			}
			s.give(d.answer(func(a *answer) { a.Tag = d.Tag }))
			answers, rejected := a.ends()
			wantAnswer := []ibside.ServiceAnswer{{QPN: 0x1001, QKey: 0x5e4f1ce, Private: append([]byte("from the host"), make([]byte, 136-13)...)}}
			if !reflect.DeepEqual(answers, wantAnswer) || rejected != nil {
				t.Errorf("answered %+v, rejected %v", answers, rejected)
			}
			got, _, _ := s.tables.ProxyQPs.Find(tables.HostQP{Host: c.host, HostQPN: 0x123})
			wantProxyQP := tables.ProxyQP{HostQP: tables.HostQP{Host: c.host, HostQPN: 0x123}, QP: 1, QPN: 0x1001, QKey: 0x5e4f1ce, Version: c.version}
			if got != wantProxyQP || s.ibPort.open() != 1 {
				t.Errorf("proxy QP %+v, want %+v", got, wantProxyQP)
			}
			s.want(ibToRoCE, only(sidr.Answered))
			if s.loop.Status().Asked != [2]int{} {
				t.Error("something is left of a request that has been answered")
			}
		})
	}
}

// TestServiceOfHostRejected checks that the host's rejection is passed to the node.
func TestServiceOfHostRejected(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    func(*answer)
		status  uint8
		private string
		result  manage.ServiceResult
	}{
		{"nobody listens", func(a *answer) { a.fields.Status = 1 }, 1, "from the host", sidr.Refused},
		{"rejected", func(a *answer) { a.fields.Status = 2 }, 2, "from the host", sidr.Refused},
		{"no queue pair", func(a *answer) { a.fields.Status = 3 }, 3, "from the host", sidr.Refused},
		{"redirected", func(a *answer) { a.fields.Status = 4 }, 2, "from the host", sidr.Refused},
		{"another version", func(a *answer) { a.fields.Status = 5 }, 5, "from the host", sidr.Refused},
		{"a status that does not exist", func(a *answer) { a.fields.Status = 200 }, 2, "from the host", sidr.Refused},
		{"QP 0", func(a *answer) { a.fields.QPN = 0 }, 3, "", sidr.Malformed},
		{"QP 1", func(a *answer) { a.fields.QPN = 1 }, 3, "", sidr.Malformed},
		{"the multicast QPN", func(a *answer) { a.fields.QPN = 0xffffff }, 3, "", sidr.Malformed},
		{"a controlled Q_Key", func(a *answer) { a.fields.QKey = 0x80000000 }, 3, "", sidr.Malformed},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, knowing(2))
			a := s.request(node4, host4)
			d := s.asked()
			s.give(d.answer(c.edit))
			if !a.rejectedWith(c.status) || strings.TrimRight(a.private, "\x00") != c.private || s.ibPort.open() != 0 {
				t.Errorf("%+v", a)
			}
			s.want(ibToRoCE, only(c.result))
		})
	}
}

// TestNodesRejected checks requests that are rejected without asking a RoCE host.
func TestNodesRejected(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to netip.Addr
		edit     func(*ibside.ServiceRequest)
		status   uint8
		result   manage.ServiceResult
	}{
		{"not served", node4, host4, func(r *ibside.ServiceRequest) { r.Port = 7175 }, 1, sidr.Unsupported},
		{"of the bridge", node4, bridge4, nil, 1, sidr.Unsupported},
		{"of a node", node4, node4, nil, 1, sidr.Unsupported},
		{"from no node", netip.MustParseAddr("10.9.0.8"), host4, nil, 2, sidr.NoNode},
		{"of a host that is not allowed", node4, netip.MustParseAddr("10.9.0.200"), nil, 2, sidr.Denied},
		{"of another partition", node4, host4, func(r *ibside.ServiceRequest) { r.PKey = 0x8002 }, 2, sidr.Denied},
		{"of both IP versions", node4, host6, nil, 2, sidr.Malformed},
		{"too much private data", node4, host4, func(r *ibside.ServiceRequest) { r.Private = make([]byte, 181) }, 2, sidr.Malformed},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, knowing(2))
			a := s.request(c.from, c.to, func(r *ibside.ServiceRequest) {
				if c.edit != nil {
					c.edit(r)
				}
			})
			if sent := s.w.take(); !a.rejectedWith(c.status) || len(sent) != 0 {
				t.Errorf("%+v, sent %x", a, sent)
			}
			s.want(ibToRoCE, only(c.result))
		})
	}
	bubble(t, "a port that does not know the partition", func(t *testing.T) {
		s := startServices(t, knowing(2))
		s.request(node4, host4, func(r *ibside.ServiceRequest) { r.PKey, r.Private = 0, make([]byte, 180) })
		s.asked()
	})
}

// TestAnswersToNothing checks that only the answer of the host that was asked ends the request.
func TestAnswersToNothing(t *testing.T) {
	for name, edit := range map[string]func(*answer){
		"another request":     func(a *answer) { a.fields.RequestID++ },
		"another service":     func(a *answer) { a.fields.ServiceID++ },
		"another host":        func(a *answer) { a.SrcIP = netip.MustParseAddr("10.9.0.2") },
		"to another node":     func(a *answer) { a.DstIP = bridge4 },
		"another MAC address": func(a *answer) { a.Src = otherMAC },
	} {
		bubble(t, name, func(t *testing.T) {
			s := startServices(t, knowing(2))
			a := s.request(node4, host4)
			d := s.asked()
			if sent := s.give(d.answer(edit)); len(sent) != 0 || !a.waits() || s.ibPort.open() != 0 {
				t.Errorf("accepted as an answer: %+v, sent %x", a, sent)
			}
			s.want(ibToRoCE, only(sidr.Unmatched))
			s.give(d.answer())
			if answers, _ := a.ends(); len(answers) != 1 {
				t.Error("the right one is not accepted")
			}
			s.give(d.answer()) // once more
			want := only(sidr.Answered)
			want[sidr.Unmatched] = 2
			s.want(ibToRoCE, want)
		})
	}
}

// TestHostUnknown checks that the MAC address of an unknown host is resolved first.
func TestHostUnknown(t *testing.T) {
	bubble(t, "IPv4", func(t *testing.T) {
		s := startServices(t, nil)
		first, second := s.request(node4, host4), s.request(node4, host4)
		if got := s.rig.asked(); !equal(got, map[netip.Addr]netip.Addr{host4: bridge4}) {
			t.Errorf("asked for %v", got)
		}
		got := s.datagrams(s.give(arp(hostLink, frame.ARPReply, host4, bridge4)), nil)
		if len(got) != 2 || got[0].Dst != hostMAC || got[0].req.RequestID() == got[1].req.RequestID() {
			t.Fatalf("then %+v", got)
		}
		for _, d := range got {
			s.give(d.answer())
		}
		for _, a := range []*asker{first, second} {
			if answers, _ := a.ends(); len(answers) != 1 || answers[0].QPN != 0x1001 {
				t.Errorf("answered %+v", answers)
			}
		}
	})
	bubble(t, "IPv6", func(t *testing.T) {
		s := startServices(t, nil)
		a := s.request(node6, host6)
		if got := s.rig.asked(); !equal(got, map[netip.Addr]netip.Addr{host6: bridge6}) {
			t.Errorf("asked for %v", got)
		}
		got := s.datagrams(s.give(na(hostLink, host6, true)), nil)
		if len(got) != 1 {
			t.Fatalf("then %+v", got)
		}
		s.give(got[0].answer())
		if answers, _ := a.ends(); len(answers) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestHostNotFound checks that an unknown host is searched for more than once, and then given up.
func TestHostNotFound(t *testing.T) {
	bubble(t, "an ARP request is lost", func(t *testing.T) {
		s := startServices(t, nil)
		s.request(node4, host4)
		s.w.take()
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		if got := s.rig.asked(); len(got) != 1 {
			t.Errorf("asked for %v after a second", got)
		}
		if got := s.datagrams(s.give(arp(hostLink, frame.ARPReply, host4, bridge4)), nil); len(got) != 1 {
			t.Errorf("then %+v", got)
		}
	})
	bubble(t, "not there", func(t *testing.T) {
		s := startServices(t, nil)
		a := s.request(node4, host4)
		time.Sleep(2900 * time.Millisecond)
		synctest.Wait()
		n := 0
		if s.datagrams(s.w.take(), &n); n != 3 || !a.waits() {
			t.Errorf("%d questions, %+v", n, a)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if sent := s.w.take(); !a.rejectedWith(1) || len(sent) != 0 {
			t.Errorf("%+v, sent %x", a, sent)
		}
		s.want(ibToRoCE, only(sidr.Unreachable))
		if s.request(node4, host4); len(s.rig.asked()) != 1 {
			t.Error("it is not searched for again")
		}
	})
	bubble(t, "behind a router", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, _ *services) {
			c.Allow = append(c.Allow, netip.PrefixFrom(far4, 32))
		})
		if a := s.request(node4, far4); !a.rejectedWith(1) {
			t.Errorf("%+v", a)
		}
		s.want(ibToRoCE, only(sidr.Unreachable))
	})
}
