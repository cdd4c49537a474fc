// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// after lets time pass.
func (s *serviceRig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestQuestionLost checks that a request is the same each time it is sent, after 1, 2, 4, 4 … seconds, and that one
// answer ends it.
func TestQuestionLost(t *testing.T) {
	bubble(t, "lost", func(t *testing.T) {
		s := startServices(t, knowing(2))
		a := s.request(node4, host4)
		first := s.asked()
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			began := time.Now()
			var got []datagram
			for len(got) == 0 && time.Since(began) < 5*time.Second {
				s.after(10 * time.Millisecond)
				got = s.datagrams(s.w.take(), nil)
			}
			if took := time.Since(began); len(got) != 1 || took < wait-20*time.Millisecond || took > wait+150*time.Millisecond {
				t.Fatalf("sent again after %v, for the %d. time", took, i+1)
			}
			if !bytes.Equal(got[0].Payload, first.Payload) {
				t.Errorf("the request has changed: %x, then %x", first.Payload, got[0].Payload)
			}
		}
		s.give(first.answer()) // to the first
		s.give(first.answer()) // and to those after it
		if answers, rejected := a.ends(); len(answers) != 1 || len(rejected) != 0 || s.ibPort.open() != 1 {
			t.Errorf("%+v, %d proxy QPs", a, s.ibPort.open())
		}
		want := only(sidr.Answered)
		want[sidr.Resent], want[sidr.Unmatched] = 4, 1
		s.want(ibToRoCE, want)
		s.after(10 * time.Second)
		if sent := s.w.take(); len(sent) != 0 {
			t.Errorf("it is asked on: %x", sent)
		}
	})
}

// TestQuestionAgain checks that a request that could not be sent is sent later, to the MAC address that the host has by
// then.
func TestQuestionAgain(t *testing.T) {
	bubble(t, "the worker's ring is full", func(t *testing.T) {
		s := startServices(t, knowing(2))
		s.w.setFull(true)
		s.request(node4, host4)
		s.w.setFull(false)
		s.after(1200 * time.Millisecond)
		s.asked()
	})
	bubble(t, "the host has been removed meanwhile", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, _ *services) { c.VLAN = 5 })
		link := frame.Link{MAC: hostMAC, VID: 5}
		s.give(arp(link, frame.ARPRequest, host4, bridge4))
		a := s.request(node4, host4)
		s.asked()
		s.removeHost(host4)
		s.after(1200 * time.Millisecond)
		if got := s.rig.asked(); len(got) != 1 {
			t.Fatalf("asked for %v", got)
		}
		got := s.datagrams(s.give(arp(link, frame.ARPReply, host4, bridge4)), nil)
		if len(got) != 1 {
			t.Fatalf("asked %+v", got)
		}
		s.removeHost(host4) // and once more
		s.give(got[0].answer(func(a *answer) { a.Tag = got[0].Tag }))
		if h, _ := s.host(host4); a.qpn() != 0x1001 || h.VLAN != 5 || h.MAC != hostMAC {
			t.Errorf("the proxy QP is QP %v, of %+v", a.qpn(), h)
		}
	})
	bubble(t, "the host has moved meanwhile", func(t *testing.T) {
		s := startServices(t, nil)
		s.give(arp(hostLink, 1, host4, bridge4))
		a := s.request(node4, host4)
		if d := s.asked(); d.Dst != hostMAC {
			t.Fatalf("asked %v", d.Dst)
		}
		s.after(700 * time.Millisecond)
		s.give(arp(otherLink, 1, host4, bridge4))
		s.after(500 * time.Millisecond)
		s.w.take()
		s.after(2100 * time.Millisecond)
		d := s.asked()
		if d.Dst != otherMAC {
			t.Errorf("asked %v again", d.Dst)
		}
		s.give(d.answer())
		if answers, _ := a.ends(); len(answers) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestHostSilent checks that the bridge gives up on a host that does not answer before the client does.
func TestHostSilent(t *testing.T) {
	bubble(t, "silent", func(t *testing.T) {
		s := startServices(t, knowing(2))
		a := s.request(node4, host4)
		s.after(29 * time.Second)
		if !a.waits() {
			t.Error("given up too soon")
		}
		s.after(1500 * time.Millisecond)
		if !a.rejectedWith(1) {
			t.Errorf("%+v", a)
		}
		want := only(sidr.TimedOut)
		want[sidr.Resent] = 8
		s.want(ibToRoCE, want)
	})
}

// served makes a node ask for a service of a host that answers with this queue pair, and returns the result.
func (s *serviceRig) served(host netip.Addr, qpn ib.QPN, qkey ib.QKey) *asker {
	s.t.Helper()
	node := node4
	if host.Is6() {
		node = node6
	}
	a := s.request(node, host)
	d := s.asked()
	s.give(d.answer(func(a *answer) { a.fields.QPN, a.fields.QKey = qpn, qkey }))
	return a
}

func (a *asker) qpn() ib.QPN {
	if answers, rejected := a.ends(); len(answers) == 1 && len(rejected) == 0 {
		return answers[0].QPN
	}
	return 0
}

// TestProxyQPsOfServices checks that a service has one proxy QP for all nodes, that of its queue pair.
func TestProxyQPsOfServices(t *testing.T) {
	bubble(t, "found again", func(t *testing.T) {
		s := startServices(t, knowing(2))
		for range 3 {
			if got := s.served(host4, 0x123, 7).qpn(); got != 0x1001 {
				t.Errorf("the proxy QP is QP %v", got)
			}
		}
		if h := s.punt(hostLink, host4, 0x123); h.ended() != "requeued" || s.ibPort.open() != 1 {
			t.Errorf("data ended by %q, %d proxy QPs", h.ended(), s.ibPort.open())
		}
	})
	bubble(t, "made by data before", func(t *testing.T) {
		s := startServices(t, knowing(2))
		s.punt(hostLink, host4, 0x123)
		if got := s.served(host4, 0x123, ib.QKeyRDMAUDP).qpn(); got != 0x1001 || s.ibPort.open() != 1 {
			t.Errorf("the proxy QP is QP %v of %d", got, s.ibPort.open())
		}
	})
	bubble(t, "the server restarts, with another queue pair", func(t *testing.T) {
		s := startServices(t, knowing(2))
		first, second := s.served(host4, 0x123, 7).qpn(), s.served(host4, 0x124, 7).qpn()
		if first != 0x1001 || second != 0x1002 || s.ibPort.open() != 2 {
			t.Errorf("the proxy QPs are %v and %v", first, second)
		}
	})
	bubble(t, "the server restarts, with another Q_Key", func(t *testing.T) {
		s := startServices(t, knowing(2))
		first, second := s.served(host4, 0x123, 7).qpn(), s.served(host4, 0x123, 8).qpn()
		got, _, _ := s.tables.ProxyQPs.Find(tables.HostQP{Host: host4, HostQPN: 0x123})
		if first != 0x1001 || second != 0x1002 || s.ibPort.open() != 1 || got.QKey != 8 || got.QPN != second {
			t.Errorf("the proxy QPs are %v and %v, at the end %+v", first, second, got)
		}
	})
}

// TestNoProxyQPForService checks that requests for a service without a proxy QP are rejected and counted by name; and
// that proxy QPs of services age as others do.
func TestNoProxyQPForService(t *testing.T) {
	bubble(t, "full", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) { knowing(2)(c, cm); c.ProxyQPs, c.ProxyQPLimits.PerHost = 4, 3 })
		for i, c := range []struct {
			host netip.Addr
			want bool
		}{{host4, true}, {host4, true}, {host4, true}, {host4, false}, {host6, true}, {host6, false}} {
			a := s.served(c.host, ib.QPN(0x100+i), 7)
			if (a.qpn() != 0) != c.want || !c.want && !a.rejectedWith(ib.SIDRStatusNoQP) {
				t.Errorf("service %d: %+v", i, a)
			}
		}
		want := only(sidr.NoProxyQP)
		want[sidr.NoProxyQP], want[sidr.Answered] = 2, 4
		s.want(ibToRoCE, want)
		if n := s.count(); n.ProxyQPsDenied != 2 || s.ibPort.open() != 4 || s.log.count("proxy_qp_rejected") == 0 {
			t.Errorf("%+v, %d QPs", n, s.ibPort.open())
		}
		if got := s.served(host4, 0x100, 7).qpn(); got != 0x1001 {
			t.Errorf("one that has its proxy QP gets %v", got)
		}
	})
	bubble(t, "the port gives none", func(t *testing.T) {
		s := startServices(t, knowing(2))
		s.ibPort.createErr = errors.New("no QP is left")
		if a := s.served(host4, 0x123, 7); !a.rejectedWith(ib.SIDRStatusNoQP) {
			t.Errorf("%+v", a)
		}
		s.want(ibToRoCE, only(sidr.NoProxyQP))
	})
	bubble(t, "an answer keeps it from ageing", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) { knowing(2)(c, cm); c.ProxyQPLimits.Idle = time.Minute })
		s.served(host4, 0x123, 7)
		for range 4 {
			s.after(40 * time.Second)
			if got := s.served(host4, 0x123, 7).qpn(); got != 0x1001 {
				t.Errorf("the proxy QP is QP %v", got)
			}
		}
		s.after(75 * time.Second)
		if n := s.ibPort.open(); n != 0 {
			t.Errorf("%d proxy QPs are left of services that nobody uses", n)
		}
	})
}
