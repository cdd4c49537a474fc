// SPDX-License-Identifier: Apache-2.0

package neighbours_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

const data = 2 // the RoCE version of hosts that send

// forged returns the i-th forged address, and a MAC address for it.
func forged(i int) (netip.Addr, frame.MAC) {
	mac := frame.MAC{2, 9}
	binary.BigEndian.PutUint32(mac[2:], uint32(i))
	return netip.AddrFrom4([4]byte{10, 9, 0, byte(50 + i%200)}), mac
}

// answer delivers a host's ARP reply to the bridge.
func (r *rig) answer(mac frame.MAC, ip netip.Addr) {
	r.t.Helper()
	f, fault := frame.Open(frame.AppendARP(nil, frame.Link{MAC: mac}, bridgeMAC,
		frame.ARPFields{Op: frame.ARPReply, SHA: mac, SPA: ip, THA: bridgeMAC, TPA: bridge}))
	if fault != "" {
		r.t.Fatal(fault)
	}
	r.HandleARP(0, f, r.now)
}

// asked returns the MAC address at which the bridge has asked for a host by the last frame that it sent.
func (r *rig) asked(ip netip.Addr) (at frame.MAC) {
	r.t.Helper()
	if len(r.worker.sent) == 0 {
		return at
	}
	f, _ := frame.Open(r.worker.sent[len(r.worker.sent)-1])
	if a, fault := frame.ParseARP(f.Eth.Src(), f.Payload); fault == "" && a.Op == frame.ARPRequest && a.TPA == ip {
		return f.Eth.Dst()
	}
	return at
}

func (r *rig) confirmed(ip netip.Addr) bool {
	is, _ := r.Standing(ip)
	return is
}

// TestConfirm checks that a host is a stranger until it answers a request, at the MAC address that it was asked at.
func TestConfirm(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true, Hosts: []tables.Host{{IP: addr(3), MAC: hostMAC, Version: 2, Static: true}}})
	if !r.confirmed(addr(3)) {
		t.Error("a static host is a stranger")
	}
	r.answer(hostMAC, addr(1)) // unasked
	if r.confirmed(addr(1)) {
		t.Error("it was not asked, and is confirmed")
	}
	if state, _, _ := r.State(addr(1)); state != neighbours.Stranger {
		t.Errorf("it is %s", state)
	}
	if r.arp(hostMAC, addr(1), bridge); r.asked(addr(1)) != hostMAC {
		t.Errorf("asks for the bridge's address, and is not asked: %x", r.worker.sent)
	}
	r.answer(otherMAC, addr(1)) // another station
	if r.confirmed(addr(1)) {
		t.Error("another station has answered")
	}
	if r.answer(hostMAC, addr(1)); !r.confirmed(addr(1)) || r.Counters().HostsConfirmed != 1 {
		t.Errorf("it has answered: %+v", r.Counters())
	}
	if r.arp(hostMAC, addr(1), bridge); r.asked(addr(1)) == hostMAC {
		t.Error("it is asked again")
	}
	r.worker.sent = nil
	r.Confirm(addr(2), otherMAC, 0, r.now) // it sends data, and is not known yet
	if r.asked(addr(2)) != otherMAC {
		t.Error("a host that is not known is not asked")
	}
	r.now = r.now.Add(4 * time.Second)
	if r.answer(otherMAC, addr(2)); r.confirmed(addr(2)) {
		t.Error("an answer that is too late counts")
	}
	r.Confirm(addr(2), otherMAC, 0, r.now)
	if r.answer(otherMAC, addr(2)); !r.confirmed(addr(2)) {
		t.Error("it has answered, and is a stranger")
	}
	r.Confirm(addr(4), otherMAC, 0, r.now)
	if r.answer(hostMAC, addr(4)); r.confirmed(addr(4)) {
		t.Error("another station has answered for a host that is not known")
	}
}

// TestStrangersWant checks that what a host asks for is a stranger's question until it has answered, and so is a probe, which tells
// nobody's address.
func TestStrangersWant(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true})
	r.arp(hostMAC, addr(1), addr(100))
	r.arp(hostMAC, addr(1), bridge)
	r.answer(hostMAC, addr(1))
	r.arp(hostMAC, addr(1), addr(101))
	r.arp(otherMAC, netip.IPv4Unspecified(), addr(102))
	if want := []wanted{{addr(100), true}, {addr(101), false}, {addr(102), true}}; !slices.Equal(r.wanted, want) {
		t.Errorf("asked for %v, want %v", r.wanted, want)
	}
}

// TestConfirmMoves checks that a host that has moved is a stranger until it answers there.
func TestConfirmMoves(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true})
	r.arp(hostMAC, addr(1), bridge)
	r.answer(hostMAC, addr(1))
	r.arp(otherMAC, addr(1), bridge)
	if r.run(2 * time.Second); !r.at(addr(1), otherMAC) || r.confirmed(addr(1)) {
		t.Errorf("it has moved: %t; confirmed: %t", r.at(addr(1), otherMAC), r.confirmed(addr(1)))
	}
	if r.answer(otherMAC, addr(1)); !r.confirmed(addr(1)) {
		t.Error("it has answered, and is a stranger")
	}
}

// TestSilentIsStranger checks that a host that stops answering is a stranger again.
func TestSilentIsStranger(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true})
	r.arp(hostMAC, addr(1), bridge)
	r.answer(hostMAC, addr(1))
	r.proxyQPs[addr(1)] = 1
	if r.run(9 * time.Minute); !r.confirmed(addr(1)) {
		t.Error("it was not asked yet")
	}
	if r.run(2 * time.Minute); r.confirmed(addr(1)) {
		t.Error("it does not answer")
	}
	if r.answer(hostMAC, addr(1)); !r.confirmed(addr(1)) {
		t.Error("it answers again")
	}
}

// TestConfirmedStay checks that a host that has answered does not make room for one that only asks by ARP, however long
// it was not heard, and that it does for one that sends data.
func TestConfirmedStay(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 2, Version: 2, Confirm: true})
	for _, ip := range []netip.Addr{addr(1), addr(2)} {
		r.arp(hostMAC, ip, bridge)
		if r.answer(hostMAC, ip); !r.confirmed(ip) {
			t.Fatalf("%v has answered, and is a stranger", ip)
		}
	}
	r.now = r.now.Add(time.Second)
	if r.arp(otherMAC, addr(3), bridge); !r.confirmed(addr(1)) || !r.confirmed(addr(2)) {
		t.Error("a host made room for one that asks by ARP")
	}
	if _, err := r.Learn(addr(3), otherMAC, 0, 2, r.now); err != nil || r.confirmed(addr(1)) || !r.confirmed(addr(2)) {
		t.Errorf("one that sends data: %v; the one that was heard first is there: %t", err, r.confirmed(addr(1)))
	}
}

// TestForgedHosts checks that forged addresses without end, in data and in ARP, cost bounded state and requests, keep
// confirmed hosts and those with proxy QPs where they are, and leave room for a newcomer.
func TestForgedHosts(t *testing.T) {
	for name, forge := range map[string]func(r *rig, ip netip.Addr, mac frame.MAC){
		"data": func(r *rig, ip netip.Addr, mac frame.MAC) {
			r.Confirm(ip, mac, 0, r.now)
			if why, err := r.Learn(ip, mac, 0, data, r.now); err != nil && why != punt.RejectSource {
				t.Errorf("%v: %v", ip, err)
			}
		},
		"ARP": func(r *rig, ip netip.Addr, mac frame.MAC) { r.arp(mac, ip, bridge) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true})
			r.arp(hostMAC, addr(1), bridge)
			r.answer(hostMAC, addr(1))
			r.arp(otherMAC, addr(2), bridge) // a stranger that has a proxy QP
			r.proxyQPs[addr(2)] = 1
			asked := r.Counters().HostsAsked
			for i := range 3000 {
				ip, mac := forged(i)
				forge(r, ip, mac)
				if n := r.tables.Hosts.Len(); n > 8 {
					t.Fatalf("%d hosts", n)
				}
				r.tables.Reclaim()
			}
			if n := r.Counters().HostsAsked - asked; n == 0 || n > 2*512 {
				t.Errorf("%d requests at once", n)
			}
			if !r.at(addr(1), hostMAC) || !r.at(addr(2), otherMAC) {
				t.Error("a host in use has gone")
			}
			r.now = r.now.Add(time.Second)
			if r.arp(hostMAC, addr(9), bridge); r.asked(addr(9)) != hostMAC {
				t.Error("a newcomer is not asked")
			}
			if r.answer(hostMAC, addr(9)); !r.confirmed(addr(9)) {
				t.Error("the newcomer has answered, and is a stranger")
			}
		})
	}
}

// TestNoPlace checks that a host that sends takes the place of a stranger with proxy QPs when all have some.
func TestNoPlace(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 2, Version: 2, Confirm: true})
	for i := range byte(2) {
		r.arp(hostMAC, addr(1+i), bridge)
		r.proxyQPs[addr(1+i)] = 1
	}
	if _, err := r.Learn(addr(5), otherMAC, 0, data, r.now); err != nil || len(r.proxyQPs) != 1 {
		t.Errorf("%v; %v", err, r.proxyQPs)
	}
}

// TestRepeatedStranger checks that a host that sends again is asked, though hundreds of forged addresses come between.
func TestRepeatedStranger(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Confirm: true})
	asked := false
	for i := range 20_000 {
		r.now = r.now.Add(20 * time.Microsecond)
		_, mac := forged(i)
		r.worker.sent = nil
		r.Confirm(netip.AddrFrom4([4]byte{10, 9, 0, byte(50 + i%200)}), mac, 0, r.now)
		if i == 18_000 || i == 18_500 || i == 19_000 {
			r.worker.sent = nil
			r.Confirm(addr(9), hostMAC, 0, r.now)
			asked = asked || r.asked(addr(9)) == hostMAC
		}
	}
	if !asked {
		t.Error("it is not asked")
	}
	if n := r.Counters().HostsAsked; n > 3*512 {
		t.Errorf("%d requests in less than a second", n)
	}
}
