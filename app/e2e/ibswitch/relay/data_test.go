// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"testing"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

func TestUnicast(t *testing.T) {
	f := configured(t, 4)
	b := datagram(11, 13, nil)
	f.links[0].port.Receive(b)
	if got := f.next(3); !bytes.Equal(got, b) {
		t.Errorf("% x became % x", b, got)
	}
	f.nothing(1, 2, 4)
}

// wrong makes a packet by port 1 that is damaged after its CRCs were made.
func wrong(change func([]byte)) func() []byte {
	return func() []byte {
		b := datagram(11, 13, nil)
		change(b)
		return b
	}
}

// sound makes a packet by port 1 with right CRCs.
func sound(dlid ib.LID, change func(*ib.Packet)) func() []byte {
	return func() []byte { return datagram(11, dlid, change) }
}

func long(p *ib.Packet) { p.Payload = make([]byte, 1025) }

// dropCases are the reasons, and the port that counts each. The packet comes by port 1.
var dropCases = []struct {
	reason string
	port   int
	set    func(f *fixture)
	packet func() []byte
}{
	{"lrh_hdr", 1, nil, func() []byte { return []byte{0, 0, 0} }},
	{"lrh_hdr", 1, nil, wrong(func(b []byte) { b[0] |= 1 })},
	{"ib_raw", 1, nil, wrong(func(b []byte) { b[1] &^= 3 })},
	{"lrh_len", 1, nil, func() []byte { b := datagram(11, 13, nil); return b[:len(b)-4] }},
	{"lrh_len", 1, nil, wrong(func(b []byte) { b[1] |= 3 })}, // too short for a GRH
	{"vcrc", 1, nil, wrong(func(b []byte) { b[len(b)-1]++ })},
	{"vl", 1, nil, sound(13, func(p *ib.Packet) { p.VL = 1 })},
	{"in_not_active", 1, func(f *fixture) { f.links[0].port.LinkChanged(false) }, sound(13, nil)},
	{"in_not_active", 1, func(f *fixture) {
		f.links[0].port.LinkChanged(false)
		f.links[0].port.LinkChanged(true)
		f.setPort(1, func(i *smp.PortInfo) { i.State = smp.Armed })
	}, sound(13, nil)},
	{"out_not_active", 3, func(f *fixture) { f.links[2].port.LinkChanged(false) }, sound(13, nil)},
	{"no_route", 1, nil, sound(0x99, nil)},
	{"no_route", 1, nil, sound(ib.MLIDFirst+multicastCap, nil)},
	{"no_route", 1, func(f *fixture) { f.sw.linear[13] = 5 }, sound(13, nil)}, // no such port
	{"no_route", 1, func(f *fixture) { f.sw.linear[13] = 0 }, sound(13, nil)}, // not its own LID
	{"mc_empty", 1, nil, sound(0xc001, nil)},
	{"mc_empty", 1, func(f *fixture) { f.sw.multicast[1][0] = 1 << 1 }, sound(0xc001, nil)}, // back to where it came from
	{"mtu", 3, func(f *fixture) { f.setPort(3, func(i *smp.PortInfo) { i.NeighborMTU = ib.MTU1024 }) }, sound(13, long)},
	{"pkey_in", 1, func(f *fixture) { f.enforce(1, smp.EnforceInbound, 0x8005) }, sound(13, nil)},
	{"pkey_out", 3, func(f *fixture) { f.enforce(3, smp.EnforceOutbound, 0x7fff) }, sound(13, func(p *ib.Packet) { p.PKey = 0x7fff })},
	{"lost", 1, func(f *fixture) { _ = f.sw.Lose("a", 100) }, sound(13, nil)},
	{"lost", 3, func(f *fixture) { _ = f.sw.Lose("c", 100) }, sound(13, nil)},
	{"smp_malformed", 1, nil, sound(13, func(p *ib.Packet) { p.VL, p.DestQP = 15, 0 })},
}

func TestDrops(t *testing.T) {
	for _, c := range dropCases {
		t.Run(c.reason, func(t *testing.T) {
			f := configured(t, 4)
			if c.set != nil {
				c.set(f)
			}
			f.sw.trap.stop()
			f.conserved()
			for len(f.links[0].sent) > 0 { // traps
				<-f.links[0].sent
			}
			f.links[0].port.Receive(c.packet())
			if n := f.drops(c.port, c.reason); n != 1 {
				t.Errorf("dropped %d times: %+v", n, f.sw.Counts())
			}
			f.nothing(1, 2, 3, 4)
		})
	}
}

// enforce has a port enforce partitions.
func (f *fixture) enforce(port int, bits uint8, key ib.PKey) {
	f.t.Helper()
	f.setPort(port, func(i *smp.PortInfo) { i.Enforcement = bits })
	if m := f.ask(ib.MethodSet, smp.AttrPKeyTable, uint32(port)<<16, []byte{byte(key >> 8), byte(key)}); status(m) != smp.StatusOK {
		f.t.Fatalf("Set(P_KeyTable): %#x", status(m))
	}
}

// TestPartition: a limited member may send to a full one, and not to another limited member.
func TestPartition(t *testing.T) {
	f := configured(t, 3)
	f.enforce(1, smp.EnforceInbound|smp.EnforceOutbound, 0x0005)
	f.enforce(2, smp.EnforceInbound|smp.EnforceOutbound, 0x8005)
	f.enforce(3, smp.EnforceInbound|smp.EnforceOutbound, 0x0005)
	limited := func(p *ib.Packet) { p.PKey = 5 }
	f.links[0].port.Receive(datagram(11, 12, limited))
	f.next(2)
	f.links[0].port.Receive(datagram(11, 13, limited))
	f.nothing(1, 2, 3)
	if n := f.drops(3, "pkey_out"); n != 1 {
		t.Errorf("%d dropped", n)
	}
}

// TestMTU: the limit is the payload's, whatever headers there are.
func TestMTU(t *testing.T) {
	f := configured(t, 3)
	f.setPort(3, func(i *smp.PortInfo) { i.NeighborMTU = ib.MTU256 })
	for _, c := range []struct {
		size   int
		imm    bool
		passes bool
	}{{256, false, true}, {256, true, true}, {255, false, true}, {257, false, false}, {257, true, false}} {
		f.links[0].port.Receive(datagram(11, 13, func(p *ib.Packet) {
			p.Payload, p.GRH = make([]byte, c.size), &ib.GRHFields{DGID: ib.GID{0xfe, 0x80}}
			if c.imm {
				p.OpCode = ib.OpUDSendOnlyImm
			}
		}))
		if c.passes {
			f.next(3)
		}
		f.nothing(3)
	}
	if n := f.drops(3, "mtu"); n != 2 {
		t.Errorf("%d dropped", n)
	}
}

// TestMulticast: to the group's other ports, one packet each; ports beyond 15 are in another position.
func TestMulticast(t *testing.T) {
	f := configured(t, 18)
	block := make([]byte, smp.DataLen)
	block[2], block[3] = 0, 1<<1|1<<3|1<<4 // of MLID 0xc001
	if m := f.ask(ib.MethodSet, smp.AttrMulticastFDB, 0, block); status(m) != smp.StatusOK {
		t.Fatalf("%#x", status(m))
	}
	block[3] = 1 << 1 // port 17
	if m := f.ask(ib.MethodSet, smp.AttrMulticastFDB, 1<<28, block); status(m) != smp.StatusOK {
		t.Fatalf("%#x", status(m))
	}
	f.links[3].port.LinkChanged(false) // port 4: its copy is dropped
	f.response(1)                      // the trap
	f.sw.repressed(mad(ib.ClassSubnLID, smp.MethodTrapRepress, smp.AttrNotice, 0, nil))
	f.sw.mu.Lock()
	f.sw.trap.stop()
	f.sw.mu.Unlock()
	b := datagram(11, 0xc001, nil)
	f.links[0].port.Receive(b)
	for _, port := range []int{3, 17} {
		if !bytes.Equal(f.next(port), b) {
			t.Errorf("port %d: changed", port)
		}
	}
	f.nothing(1, 2, 4, 16, 18)
	if c := f.sw.Counts(); c[1].Copies != 2 || c[4].Drops["out_not_active"] != 1 {
		t.Errorf("%+v", c)
	}
}

// TestLinkErrors: packets that the link did not take.
func TestLinkErrors(t *testing.T) {
	for reason, err := range map[string]error{"lifetime": link.ErrLifetime, "link_down": link.ErrDown} {
		f := configured(t, 3)
		f.links[2].wrong = err
		f.links[0].port.Receive(datagram(11, 13, nil))
		f.conserved()
		if n := f.drops(3, reason); n != 1 {
			t.Errorf("%s: %d dropped: %+v", reason, n, f.sw.Counts())
		}
	}
}

// TestBounce: what waits for a port that goes down for a moment is dropped, not sent before it is active again.
func TestBounce(t *testing.T) {
	f := configured(t, 3)
	slow := f.links[2]
	slow.sent = make(chan []byte)
	f.links[0].port.Receive(datagram(11, 13, nil))
	f.links[0].port.Receive(datagram(11, 13, nil))
	for slow.begun.Load() == 0 { // the writer has the first
		time.Sleep(time.Millisecond)
	}
	slow.port.LinkChanged(false)
	slow.port.LinkChanged(true)
	f.next(3)
	f.conserved()
	if n := f.drops(3, "link_down"); n != 1 {
		t.Errorf("%d dropped: %+v", n, f.sw.Counts())
	}
}

// TestOverflow: a slow link loses its own packets, and no other's; the manager's still pass.
func TestOverflow(t *testing.T) {
	f := configured(t, 3)
	slow := f.links[2]
	slow.sent = make(chan []byte) // its writer waits
	const n = dataQueue + 100
	for range n {
		f.links[0].port.Receive(datagram(11, 13, nil))
	}
	f.links[0].port.Receive(datagram(11, 12, nil)) // another port's link is not slow
	if lost := f.drops(3, "queue_full"); lost < 99 || lost > 100 || f.drops(2, "queue_full") != 0 {
		t.Errorf("%d lost: %+v", lost, f.sw.Counts())
	}
	go func() {
		for range slow.sent {
		}
	}()
	f.conserved()
}
