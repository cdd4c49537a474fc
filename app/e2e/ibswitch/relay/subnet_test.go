// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"testing"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// TestTwoSwitches: a directed route over both, and back. No forwarding table has an entry.
//
//	manager ── 1 f 2 ── 3 g
func TestTwoSwitches(t *testing.T) {
	near, far := link.Pipe()
	f, g := New(Config{GUID: 1, Description: "f"}), New(Config{GUID: 2, Description: "g"})
	manager := newFakeLink()
	for _, err := range []error{
		f.Add("manager", manager), f.Add("g", near), g.Add("", newFakeLink()), g.Add("x", newFakeLink()), g.Add("f", far),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Start()
	g.Start()
	defer g.Close()
	defer f.Close()
	manager.port.LinkChanged(true)
	waitUp(t, f.ports[2], g.ports[3])
	m := mad(ib.ClassSubnDirected, ib.MethodGet, smp.AttrNodeDescription, 0, nil)
	m[7], m[130] = 2, 2 // a second hop, by f's port 2
	manager.port.Receive(m.Packet(0xffff, 0xffff))
	fx := &fixture{t: t, sw: f, links: []*fakeLink{manager}}
	answer := fx.response(1)
	if string(answer.Data()[:1]) != "g" || answer.HopPointer() != 1 || !answer.Returns() {
		t.Errorf("%q, pointer %d", answer.Data()[:8], answer.HopPointer())
	}
	if path := answer[193:195]; path[0] != 1 || path[1] != 3 {
		t.Errorf("return path % x", path)
	}
}

func waitUp(t *testing.T, ports ...*Port) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		up := 0
		for _, p := range ports {
			p.sw.mu.RLock()
			if p.Up() {
				up++
			}
			p.sw.mu.RUnlock()
		}
		if up == len(ports) {
			return
		}
	}
	t.Fatal("a link does not come up")
}

// TestRouteDrops: hops that are not possible, and links that are down.
func TestRouteDrops(t *testing.T) {
	f := newFixture(t, 2)
	get := func(change func(smp.SMP)) []byte {
		m := mad(ib.ClassSubnDirected, ib.MethodGet, smp.AttrNodeInfo, 0, nil)
		change(m)
		return m.Packet(0xffff, 0xffff)
	}
	f.links[0].port.Receive(get(func(m smp.SMP) { m[6] = 3 }))            // beyond the end
	f.links[0].port.Receive(get(func(m smp.SMP) { m[7], m[130] = 2, 3 })) // port 3
	f.links[0].port.Receive(get(func(m smp.SMP) { m[3] = 0x81 }))         // a response to nobody: port 0 takes it
	f.links[1].port.LinkChanged(false)
	f.links[1].port.Receive(get(func(smp.SMP) {}))
	f.links[0].port.Receive(get(func(m smp.SMP) { m[7], m[130] = 2, 2 })) // port 2, which is down
	f.nothing(1, 2)
	if f.drops(1, "smp_route") != 2 || f.drops(2, "link_down") != 2 || f.sw.Counts()[0].Sent != 1 {
		t.Errorf("%+v", f.sw.Counts())
	}
}

// TestTrap: it is repeated until the manager represses it, and only then ends; the next change begins another.
func TestTrap(t *testing.T) {
	f := configured(t, 3)
	f.sw.trap.interval = 10 * time.Millisecond
	f.links[2].port.LinkChanged(false)
	var last smp.SMP
	for range 3 {
		p, _ := ib.ParsePacket(f.next(1))
		last, _ = smp.As(p.Payload)
		notice := last.Data()
		if last.MAD().Method() != smp.MethodTrap || notice[0] != 0x81 || notice[3] != smp.TypeSwitch || notice[5] != 128 ||
			notice[7] != switchLID || notice[11] != switchLID || p.DLID != smLID || p.SLID != switchLID || p.VL != 15 {
			t.Fatalf("% x", last[:80])
		}
	}
	if i := smp.ParseSwitchInfo(f.quiet(last).Data()); !i.PortStateChange {
		t.Error("PortStateChange is not set")
	}
	f.links[2].port.LinkChanged(true)
	next := f.response(1)
	if next.MAD().TID() == last.MAD().TID() || next.MAD().Method() != smp.MethodTrap {
		t.Errorf("%+v", next.MAD().Fields())
	}
	f.quiet(next)
}

// quiet represses a trap and returns the SwitchInfo after it: nothing else leaves by port 1 from then on.
func (f *fixture) quiet(trap smp.SMP) smp.SMP {
	f.t.Helper()
	repress := trap.Clone()
	repress[3] = smp.MethodTrapRepress
	f.links[0].port.Receive(repress.Packet(smLID, switchLID))
	f.conserved()
	for len(f.links[0].sent) > 0 { // repetitions before
		f.next(1)
	}
	time.Sleep(50 * time.Millisecond)
	return f.ask(ib.MethodGet, smp.AttrSwitchInfo, 0, nil)
}

// TestTrapEnds: without a manager that listens it is sent a limited number of times, without one at all never.
func TestTrapEnds(t *testing.T) {
	f := newFixture(t, 2)
	f.links[1].port.LinkChanged(false)
	f.nothing(1)
	g := configured(t, 2)
	g.sw.trap.interval = time.Millisecond
	g.links[1].port.LinkChanged(false)
	for range trapTries {
		g.next(1)
	}
	time.Sleep(20 * time.Millisecond)
	g.nothing(1)
}

// FuzzSMP has a switch take any bytes on VL 15, with sound CRCs or not: it neither panics nor loses count.
func FuzzSMP(f *testing.F) {
	for _, attr := range []uint16{smp.AttrNodeInfo, smp.AttrSwitchInfo, smp.AttrPortInfo, smp.AttrPKeyTable, smp.AttrLinearFDB, smp.AttrMulticastFDB} {
		f.Add([]byte(mad(ib.ClassSubnDirected, ib.MethodSet, attr, 1, nil)), uint16(0xffff))
		f.Add([]byte(mad(ib.ClassSubnLID, ib.MethodGet, attr, 1, nil)), uint16(switchLID))
	}
	f.Fuzz(func(t *testing.T, b []byte, dlid uint16) {
		fx := configured(t, 3)
		fx.links[0].port.Receive(b)
		if len(b) >= ib.MADLen {
			fx.links[0].port.Receive(smp.SMP(b[:ib.MADLen]).Packet(smLID, ib.LID(dlid)))
		}
		for _, p := range fx.sw.Counts()[:1] {
			if p.State != "active" {
				t.Errorf("port 0 is %s", p.State)
			}
		}
	})
}
