// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// TestServiceOfNode follows one request field by field.
func TestServiceOfNode(t *testing.T) {
	v1 := func(q *question) { q.Version, q.SrcPort = 1, 0 }
	for _, c := range []struct {
		name     string
		q        *question
		src, dst netip.Addr
		vlan     uint16
	}{
		{"IPv4", ask(host4, node4), host4, node4, 0},
		{"IPv6", ask(host6, node6, func(q *question) { q.FlowLabel = 0x54321 }), host6, node6, 0},
		{"RoCEv1", ask(host4, node4, v1), host4, node4, 0},
		{"RoCEv1, IPv6", ask(host6, node6, v1), host6, node6, 0},
		{"VLAN", ask(host4, node4, func(q *question) { q.Tag = &frame.VLANFields{VID: 5} }), host4, node4, 5},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, func(cfg *manageConfig, _ *services) { cfg.VLAN = c.vlan })
			got := s.datagrams(s.give(c.q.frame()), nil)
			wantAsked := []ibside.ServiceConnect{{
				From: c.src, To: c.dst, ToGID: nodeGID, SrcPort: 50000, Port: 7174, PKey: 0x8001,
				Private: append([]byte("from the host"), make([]byte, 180-13)...),
			}}
			if !reflect.DeepEqual(s.cm.asked, wantAsked) {
				t.Errorf("the port was asked %+v", s.cm.asked)
			}
			if len(got) != 1 || got[0].rep == nil {
				t.Fatalf("%d answers", len(got))
			}
			d, want := got[0], ib.SIDRRepFields{
				RequestID: 0xabcd0001, QPN: 0x456, QKey: 0x1ee7, ServiceID: 0x0000000001111c06, Additional: []byte{},
				Private: append([]byte("from the node"), make([]byte, 136-13)...),
			}
			if !reflect.DeepEqual(d.rep.Fields(), want) || d.mad.TID() != c.q.tid {
				t.Errorf("answered %+v, transaction %#x", d.rep.Fields(), d.mad.TID())
			}
			if d.Version != c.q.Version || d.Dst != hostMAC || d.SrcIP != c.dst || d.DstIP != c.src || d.TClass != 0x68 ||
				d.FlowLabel != c.q.FlowLabel || (d.Tag != nil) != (c.vlan != 0) || d.Tag != nil && d.Tag.VID != c.vlan {
				t.Errorf("answered by %+v", d.Packet)
			}
			s.want(roceToIB, manage.ServiceCounts{sidr.Answered: 1})
			if s.tables.Hosts.Len() != 0 || s.loop.Status().Asked != [2]int{} {
				t.Error("something is left of a request that has been answered")
			}
		})
	}
}

// TestServiceOfNodeRejected checks the SIDR statuses for the port's errors.
func TestServiceOfNodeRejected(t *testing.T) {
	rejected := func(status uint8) error {
		return fmt.Errorf("the port: %w", &ibside.Rejected{Status: status, Private: []byte("why")})
	}
	for _, c := range []struct {
		name    string
		answer  ibside.ServiceAnswer
		err     error
		status  uint8
		private string
		result  manage.ServiceResult
	}{
		{"nobody listens", nodeAnswer, rejected(1), 1, "why", sidr.Refused},
		{"rejected", nodeAnswer, rejected(2), 2, "why", sidr.Refused},
		{"no queue pair", nodeAnswer, rejected(3), 3, "why", sidr.Refused},
		{"redirected", nodeAnswer, rejected(4), 2, "why", sidr.Refused},
		{"another version", nodeAnswer, rejected(5), 5, "why", sidr.Refused},
		{"a status that does not exist", nodeAnswer, rejected(99), 2, "why", sidr.Refused},
		{"rejected without a reason", nodeAnswer, rejected(0), 2, "why", sidr.Refused},
		{"nobody there", nodeAnswer, errors.New("no path"), 1, "", sidr.Unreachable},
		{"no answer", nodeAnswer, fmt.Errorf("the port: %w", context.DeadlineExceeded), 1, "", sidr.TimedOut},
		{"QP 1", ibside.ServiceAnswer{QPN: 1}, nil, 3, "", sidr.Malformed},
		{"the multicast QPN", ibside.ServiceAnswer{QPN: ib.QPMulticast}, nil, 3, "", sidr.Malformed},
		{"a controlled Q_Key", ibside.ServiceAnswer{QPN: 5, QKey: 0x80000001}, nil, 3, "", sidr.Malformed},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, func(_ *manageConfig, cm *services) {
				cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) { return c.answer, c.err }
			})
			got := s.datagrams(s.give(ask(host4, node4).frame()), nil)
			if len(got) != 1 {
				t.Fatalf("%d answers", len(got))
			}
			r := got[0].rep
			if r.Status() != c.status || strings.TrimRight(string(r.Private()), "\x00") != c.private || r.QPN() != 0 || r.QKey() != 0 {
				t.Errorf("answered %+v", r.Fields())
			}
			s.want(roceToIB, only(c.result))
		})
	}
}

// TestRequestsRejected checks requests that are rejected before they reach the port. Status -1: no answer.
func TestRequestsRejected(t *testing.T) {
	stranger := netip.MustParseAddr("10.9.0.200")
	body := func(at int, b ...byte) func(*question) {
		return func(q *question) { q.spoil = func(m []byte) { copy(m[at:], b) } }
	}
	const cma = ib.MADHdrLen + 16
	service := func(id ib.ServiceID) func(*question) { return func(q *question) { q.fields.ServiceID = id } }
	for _, c := range []struct {
		name   string
		q      *question
		status int
		result manage.ServiceResult
	}{
		{"below a range", ask(host4, node4, service(0x01110000+7999)), 1, sidr.Unsupported},
		{"above a range", ask(host4, node4, service(0x01110000+8011)), 1, sidr.Unsupported},
		{"TCP's port space", ask(host4, node4, service(0x01060000+7174)), 1, sidr.Unsupported},
		{"not rdma_cm's", ask(host4, node4, service(0x1000000001110000+7174)), 1, sidr.Unsupported},
		{"of the bridge itself", ask(host4, bridge4), 1, sidr.Unsupported},
		{"of no node", ask(host4, netip.MustParseAddr("10.9.0.9")), -1, sidr.NoNode},
		{"of a RoCE host", ask(host4, netip.MustParseAddr("10.9.0.2")), -1, sidr.NoNode},
		{"from outside the allowed subnets", ask(stranger, node4), 2, sidr.Denied},
		{"from the node's address", ask(node4, bridge4), -1, sidr.Denied},
		{"from a static host's address", ask(netip.MustParseAddr("10.9.0.3"), node4), -1, sidr.Denied},
		{"another source in rdma_cm's header", ask(host4, node4, func(q *question) { q.cma.Src = stranger }), 2, sidr.Malformed},
		{"another destination in rdma_cm's header", ask(host4, node4, func(q *question) { q.cma.Dst = bridge4 }), 2, sidr.Malformed},
		{"rdma_cm's header of another version", ask(host4, node4, body(cma, 0x10)), 2, sidr.Malformed},
		{"rdma_cm's header of another IP version", ask(host4, node4, body(cma+1, 0x50)), 2, sidr.Malformed},
		{"rdma_cm's header without addresses", ask(host4, node4, body(cma, make([]byte, 36)...)), 2, sidr.Malformed},
		{"of another partition", ask(host4, node4, func(q *question) { q.fields.PKey = 0x8005 }), 2, sidr.Malformed},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := startServices(t, func(cfg *manageConfig, _ *services) {
				cfg.Hosts = []tables.Host{{IP: netip.MustParseAddr("10.9.0.3"), MAC: otherMAC, Version: 2, Static: true}}
			})
			if got := s.asks(c.q); got != c.status {
				t.Errorf("answered with %d, want %d", got, c.status)
			}
			if n := s.cm.connects(); n != 0 {
				t.Errorf("the port was asked %d times", n)
			}
			s.want(roceToIB, only(c.result))
		})
	}
	bubble(t, "a port that cannot", func(t *testing.T) {
		s := startServices(t, func(cfg *manageConfig, _ *services) { cfg.Services = nil })
		if got := s.asks(ask(host4, node4)); got != 1 || !s.loop.Status().Ready {
			t.Errorf("answered with %d", got)
		}
	})
	for _, port := range []uint16{8000, 8005, 8010} {
		bubble(t, fmt.Sprintf("port %d is served", port), func(t *testing.T) {
			s := startServices(t, nil)
			if got := s.asks(ask(host4, node4, service(0x01110000+ib.ServiceID(port)))); got != 0 || s.cm.asked[0].Port != port {
				t.Errorf("answered with %d, %+v", got, s.cm.asked)
			}
		})
	}
}

// TestMADsMalformed checks that MADs that are no SIDR are counted, and ignored.
func TestMADsMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"from another QP":     ask(host4, node4, func(q *question) { q.SrcQP = 5 }).frame(),
		"a wrong ICRC":        wrong(ask(host4, node4).frame(), 200),
		"another class":       ask(host4, node4, func(q *question) { q.spoil = func(m []byte) { m[1] = 3 } }).frame(),
		"an answer too long":  ask(host4, node4, func(q *question) { q.spoil = func(m []byte) { m[17], m[24+5] = 0x18, 73 } }).frame(),
		"data, which cannot":  data(hostLink, 2, host4, 5),
		"UDP of another kind": ip4(hostLink, frame.ProtoUDP, 64, host4, node4, make([]byte, 300)),
	} {
		bubble(t, name, func(t *testing.T) {
			s := startServices(t, nil)
			sent := s.give(b)
			if n := s.count(); len(sent) != 0 || n.Malformed["mad_bad"] != 1 || n.Services != [2]manage.ServiceCounts{} {
				t.Errorf("sent %x, %+v", sent, n)
			}
		})
	}
}

// TestRequestsAgain checks that a request that is sent again counts as one request, and gets one and the same answer.
func TestRequestsAgain(t *testing.T) {
	bubble(t, "requeued", func(t *testing.T) {
		release := make(chan struct{})
		s := startServices(t, func(_ *manageConfig, cm *services) {
			cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				<-release
				return nodeAnswer, nil
			}
		})
		b := ask(host4, node4).frame()
		for range 3 {
			if sent := s.give(b); len(sent) != 0 {
				t.Fatalf("answered before there was an answer: %x", sent)
			}
		}
		if s.count(); s.loop.Status().Asked != [2]int{1, 0} {
			t.Errorf("%v requests are under way", s.loop.Status().Asked)
		}
		close(release)
		s.settle()
		first := s.datagrams(s.w.take(), nil) // suppose it is lost
		again := s.datagrams(s.give(b), nil)
		if len(first) != 1 || len(again) != 1 || !bytes.Equal(first[0].Payload, again[0].Payload) || first[0].rep.Status() != 0 {
			t.Fatalf("answered %+v, then %+v", first, again)
		}
		moved := ask(host4, node4, func(q *question) { q.Src = otherMAC })
		if got := s.datagrams(s.give(moved.frame()), nil); len(got) != 1 || got[0].Dst != otherMAC {
			t.Errorf("the answer goes to the source of the first request: %+v", got)
		}
		if n := s.cm.connects(); n != 1 {
			t.Errorf("the port was asked %d times", n)
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.Answered: 1, sidr.Repeated: 4})
	})
}

// TestRequestsAnew checks that a request that differs is another one; and that an answer is repeated, but not for ever.
func TestRequestsAnew(t *testing.T) {
	bubble(t, "others", func(t *testing.T) {
		s := startServices(t, nil)
		b := ask(host4, node4).frame()
		s.give(b)
		for i, other := range []*question{
			ask(host4, node4, func(q *question) { q.fields.RequestID++ }), ask(host4, node4, func(q *question) { q.tid++ }),
			ask(netip.MustParseAddr("10.9.0.2"), node4),
			ask(host4, node4, func(q *question) { q.fields.ServiceID = 0x01110000 + 8000 }),
		} {
			if got := s.asks(other); got != 0 || s.cm.connects() != i+2 {
				t.Errorf("request %d: answered with %d, the port was asked %d times", i, got, s.cm.connects())
			}
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if s.give(b); s.cm.connects() != 6 {
			t.Errorf("an old answer is given: the port was asked %d times", s.cm.connects())
		}
	})
	bubble(t, "a rejection", func(t *testing.T) {
		s := startServices(t, func(_ *manageConfig, cm *services) {
			cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				return ibside.ServiceAnswer{}, &ibside.Rejected{Status: 3}
			}
		})
		for range 3 {
			if got := s.asks(ask(host4, node4)); got != 3 {
				t.Errorf("answered with %d", got)
			}
		}
		if n := s.cm.connects(); n != 1 {
			t.Errorf("the port was asked %d times", n)
		}
	})
}

// TestAnswerLost checks that an answer that the worker's ring did not take is sent when the request is repeated.
func TestAnswerLost(t *testing.T) {
	bubble(t, "lost", func(t *testing.T) {
		s := startServices(t, nil)
		s.w.setFull(true)
		if got := s.asks(ask(host4, node4)); got != -1 {
			t.Errorf("answered with %d", got)
		}
		s.w.setFull(false)
		if got := s.asks(ask(host4, node4)); got != 0 || s.cm.connects() != 1 {
			t.Errorf("answered with %d; the port was asked %d times", got, s.cm.connects())
		}
	})
}

// TestNodeSilent checks that the bridge gives up on a node that does not answer before the client does.
func TestNodeSilent(t *testing.T) {
	bubble(t, "silent", func(t *testing.T) {
		s := startServices(t, func(_ *manageConfig, cm *services) { cm.connect = silent })
		s.give(ask(host4, node4).frame())
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if sent := s.w.take(); len(sent) != 0 {
			t.Errorf("answered after 29 s: %x", sent)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := s.datagrams(s.w.take(), nil); len(got) != 1 || got[0].rep.Status() != ib.SIDRStatusUnsupported {
			t.Errorf("answered %+v", got)
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.TimedOut: 1})
	})
}

// TestEndSaysNothing checks that a bridge that ends rejects no request that is under way: whoever sends it again may
// reach the bridge that is started next. It ends many times, because what a request came to may or may not be heard of
// in time.
func TestEndSaysNothing(t *testing.T) {
	const requests, ends = 3, 20 // a host's proxy QPs
	for range ends {
		bubble(t, "silent", func(t *testing.T) {
			s := startServices(t, func(_ *manageConfig, cm *services) { cm.connect = silent })
			for i := range requests {
				s.give(ask(host4, node4, func(q *question) {
					q.fields.RequestID += uint32(i)
					q.cma.SrcPort += uint16(i)
				}).frame())
			}
			if n := s.cm.connects(); n != requests {
				t.Errorf("the port was asked %d times, want %d", n, requests)
			}
			if err := s.end(); err != nil {
				t.Error(err)
			}
			for _, b := range s.w.take() {
				if p, err := roce.Parse(b); err == nil {
					t.Fatalf("answered with %x", p.Payload)
				}
			}
		})
	}
}
