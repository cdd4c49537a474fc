// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// unknownIP is the i-th of many hosts that no table has.
func unknownIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 10, byte(1 + i/250), byte(1 + i%250)})
}

// wants is a first packet of a queue pair of a host's.
func wants(ip netip.Addr, qpn ib.QPN) []byte {
	return v4(from(ip.String()), func(p *roce.Packet) { p.SrcQP = qpn })
}

// arpOf is an ARP request of the i-th station.
func arpOf(i int) []byte {
	mac := frame.MAC{2, 7}
	binary.BigEndian.PutUint32(mac[2:], uint32(i))
	return frame.AppendARP(nil, frame.Link{MAC: mac}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: unknownIP(i), TPA: hostIP})
}

// A puntFlood is frames of one kind without end.
type puntFlood struct {
	name  string
	frame func(i int) []byte
	most  int // that lie on the ring
	// starves are those of the others that it takes the room of, because nothing tells them apart.
	starves []int
	doubted bool // known hosts have not confirmed that they exist
}

var puntFloods = []puntFlood{
	{"queue pairs of one host", func(i int) []byte { return wants(unknownIP(0), ib.QPN(0x5000+i)) }, puntedMost, nil, false},
	{"hosts that nobody knows", ofStrangers, puntClass, []int{1}, false},
	{"hosts that nobody knows, beside one that is doubted", ofStrangers, puntClass, []int{1, 2}, true},
	{"queue pairs of a host that is known", func(i int) []byte { return wants(hostIP, ib.QPN(0x5000+i)) }, puntedMost, []int{2}, false},
	{"the address of a host that is known", func(i int) []byte {
		return v4(fromMAC(otherMAC), func(p *roce.Packet) { p.SrcQP = ib.QPN(0x5000 + i) })
	}, puntedMost, nil, false},
	{"ARP of one station", func(int) []byte { return arpOf(0) }, puntedMost, nil, false},
	{"ARP of many stations", arpOf, puntClass, []int{0}, false},
}

func ofStrangers(i int) []byte { return wants(unknownIP(i), 0x100) }

// TestPuntShares checks that a flood of any kind gets a part of the punt ring, and that all others get what they need:
// ARP, a newcomer, and a host that is known.
func TestPuntShares(t *testing.T) {
	for _, flood := range puntFloods {
		t.Run(flood.name, func(t *testing.T) {
			w := smallFixture()
			for i := range w.hosts {
				w.hosts[i].Confirmed = !flood.doubted
			}
			w.config.Allow = []netip.Prefix{netip.MustParsePrefix("10.10.0.0/16")}
			s := newRig(t, w)
			s.ignorePunts = true
			for i := 0; i < puntClass+512; {
				var some [][]byte
				for range 64 {
					some = append(some, flood.frame(i))
					i++
				}
				s.fromRoCE(some...)
			}
			on := func() int {
				return int(s.counters(lcore.RoCEToIB).ProxyQPWaits + s.datapath.Counters().Punt.Handed)
			}
			if on() != flood.most {
				t.Errorf("%d of the flood's frames are on the ring, want %d", on(), flood.most)
			}
			others := [][][]byte{ // several of each: one may share the flood's part
				{arpOf(1_000_000), arpOf(2_000_000), arpOf(3_000_000), arpOf(4_000_000)},
				{wants(unknownIP(40_001), 5), wants(unknownIP(40_002), 5), wants(unknownIP(40_003), 5), wants(unknownIP(40_004), 5)},
				{wants(hostIP, 0x99999)},
			}
			for i, some := range others {
				before := on()
				s.fromRoCE(some...)
				if found := on() > before; found == slices.Contains(flood.starves, i) {
					t.Errorf("frames %d of other hosts find room: %t", i, found)
				}
			}
		})
	}
}

// TestOverload checks that what is offered beyond the capacity costs nothing: each iteration carries a burst each way,
// and sends what management has to say, whatever waits.
func TestOverload(t *testing.T) {
	const burst, steps, own = 64, 20, 8
	for _, times := range []int{1, 2, 5, 10} {
		s := newRig(t, smallFixture())
		s.fromRoCE(v4())
		s.toIB(0)
		s.toRoCE(0)
		in, out := s.counters(lcore.RoCEToIB), s.counters(lcore.IBToRoCE)
		for range steps {
			s.offer(repeat(v4(), times*burst)...)
			s.deliver(burst)
			for range own {
				if err := s.workers[0].Send(s.pool.Pointer(), 0, arpOf(1)); err != nil {
					t.Fatal(err)
				}
			}
			s.workers[0].Step()
			s.toIB(0)
			s.toRoCE(0)
		}
		if n := s.counters(lcore.RoCEToIB).Sent - in.Sent; n != burst*steps {
			t.Errorf("%d times the capacity: %d to InfiniBand, want %d", times, n, burst*steps)
		}
		if n := s.counters(lcore.IBToRoCE).Sent - out.Sent; n != burst*steps {
			t.Errorf("%d times the capacity: %d to RoCE, want %d", times, n, burst*steps)
		}
		if n := s.datapath.Counters().Punt.Sent; n != own*steps {
			t.Errorf("%d times the capacity: %d of management's frames, want %d", times, n, own*steps)
		}
		s.work()
		s.toIB(0)
	}
}

// offer puts as many frames into the port's queue as it has room for; the rest is lost as on a wire.
func (s *rig) offer(frames ...[]byte) {
	for _, f := range frames {
		m, err := s.pool.Alloc(f)
		if err != nil {
			return
		}
		if s.port.ToPort(0).Enqueue([]dpdk.Mbuf{m}) != 1 {
			m.Free()
			return
		}
	}
}

// deliver puts so many messages into the IB port's queue.
func (s *rig) deliver(n int) {
	in := make([]fabricport.Received, n)
	for i := range in {
		in[i] = fabricport.Received(received())
	}
	s.ibPort.Deliver(0, in)
}
