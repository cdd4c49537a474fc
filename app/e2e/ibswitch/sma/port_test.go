// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// set has the port carry out a Set with some fields of its own PortInfo changed.
func set(p *Port, change func(*smp.PortInfo)) (Effect, uint16) {
	i := p.Info
	i.State, i.Physical = smp.NoChange, 0
	change(&i)
	b := make([]byte, smp.DataLen)
	i.Put(b)
	return p.PortInfo(b, true, 1)
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		now, wanted, then smp.State
		effect            Effect
		good              bool
	}{
		{smp.Down, smp.Armed, smp.Down, None, false},
		{smp.Init, smp.NoChange, smp.Init, None, true},
		{smp.Init, smp.Active, smp.Init, None, false},
		{smp.Init, smp.Init, smp.Init, None, false},
		{smp.Init, smp.Armed, smp.Armed, None, true},
		{smp.Armed, smp.Active, smp.Active, None, true},
		{smp.Active, smp.Active, smp.Active, None, true},
		{smp.Active, smp.Down, smp.Down, Retrain, true},
	} {
		p := NewPort(External, 0)
		p.LinkChanged(true)
		p.Info.State = c.now
		effect, status := set(&p, func(i *smp.PortInfo) { i.State = c.wanted })
		if p.Info.State != c.then || effect != c.effect || (status == smp.StatusOK) != c.good {
			t.Errorf("%v, set to %v: %v, effect %d, status %#x", c.now, c.wanted, p.Info.State, effect, status)
		}
	}
}

func TestLink(t *testing.T) {
	p := NewPort(External, 0)
	if p.LinkChanged(false) || !p.LinkChanged(true) || p.Info.State != smp.Init || !p.Up() {
		t.Errorf("a link that comes up: %+v", p.Info)
	}
	if effect, _ := set(&p, func(i *smp.PortInfo) { i.Physical = smp.PhysicalDisabled }); effect != Disable || p.Info.State != smp.Down {
		t.Errorf("disabled: effect %d, %v", effect, p.Info.State)
	}
	if p.LinkChanged(false) || p.Info.Physical != smp.PhysicalDisabled {
		t.Errorf("disabled, and then down: %+v", p.Info)
	}
	if effect, _ := set(&p, func(i *smp.PortInfo) { i.Physical = smp.PhysicalPolling }); effect != Enable {
		t.Errorf("enabled: effect %d", effect)
	}
}

func TestSet(t *testing.T) {
	addressed := func(i *smp.PortInfo) { i.LID, i.SMLID = 5, 1 }
	for _, c := range []struct {
		name   string
		kind   Kind
		change func(*smp.PortInfo)
		status uint16
		then   func(*Port) bool
	}{
		{"addresses", Adapter, func(i *smp.PortInfo) { addressed(i); i.LMC = 2 }, smp.StatusOK,
			func(p *Port) bool { return p.HasLID(4) && p.HasLID(7) && !p.HasLID(8) }},
		{"no LID", Adapter, func(i *smp.PortInfo) { i.SMLID = 1 }, smp.StatusBadValue, func(p *Port) bool { return p.Info.LID == 0 }},
		{"a group's LID", Adapter, func(i *smp.PortInfo) { i.LID, i.SMLID = 0xc000, 1 }, smp.StatusBadValue,
			func(p *Port) bool { return p.Info.LID == 0 && !p.HasLID(0) }},
		{"port 0 has one LID", Management, func(i *smp.PortInfo) { addressed(i); i.LMC = 2 }, smp.StatusOK,
			func(p *Port) bool { return p.HasLID(5) && !p.HasLID(4) && p.Info.State == smp.Active }},
		{"port 0 stays active", Management, func(i *smp.PortInfo) { addressed(i); i.State = smp.Down }, smp.StatusOK,
			func(p *Port) bool { return p.Info.State == smp.Active }},
		{"a switch's port has no LID", External, addressed, smp.StatusOK, func(p *Port) bool { return p.Info.LID == 0 }},
		{"MTU", External, func(i *smp.PortInfo) { i.NeighborMTU = ib.MTU1024 }, smp.StatusOK,
			func(p *Port) bool { return p.Info.NeighborMTU == ib.MTU1024 }},
		{"MTU 0 is no change", External, func(i *smp.PortInfo) { i.NeighborMTU = 0 }, smp.StatusOK,
			func(p *Port) bool { return p.Info.NeighborMTU == ib.MTU4096 }},
		{"MTU too large", External, func(i *smp.PortInfo) { i.NeighborMTU = 6 }, smp.StatusBadValue,
			func(p *Port) bool { return p.Info.NeighborMTU == ib.MTU4096 }},
		{"enforcement", External, func(i *smp.PortInfo) { i.Enforcement = 12 }, smp.StatusOK,
			func(p *Port) bool { return p.Info.Enforcement == 12 }},
		{"an adapter enforces anyway", Adapter, func(i *smp.PortInfo) { addressed(i); i.Enforcement = 12 }, smp.StatusOK,
			func(p *Port) bool { return p.Info.Enforcement == 0 }},
	} {
		p := NewPort(c.kind, 7)
		if _, status := set(&p, c.change); status != c.status || !c.then(&p) {
			t.Errorf("%s: status %#x, %+v", c.name, status, p.Info)
		}
	}
}

// TestReregister: the response has the bit as the request, and the port clears it.
func TestReregister(t *testing.T) {
	p, b := NewPort(Adapter, 7), make([]byte, smp.DataLen)
	smp.PortInfo{LID: 5, SMLID: 1, Reregister: true}.Put(b)
	p.PortInfo(b, true, 1)
	if !smp.ParsePortInfo(b).Reregister || p.Info.Reregister {
		t.Error("wrong")
	}
}

func TestPKeys(t *testing.T) {
	p := NewPort(External, 0)
	p.PKeys = [PKeys]ib.PKey{0xffff, 0x0005}
	for k, want := range map[ib.PKey][2]bool{ // accepts, passes
		0xffff: {true, true}, 0x7fff: {true, true}, 0x8005: {true, true}, 0x0005: {true, false}, 0x8006: {false, false}, 0: {false, false}, 0x8000: {false, false},
	} {
		if got := [2]bool{p.Accepts(k), p.Passes(k)}; got != want {
			t.Errorf("%v: %v, want %v", k, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	p, b := NewPort(Adapter, 7), make([]byte, smp.DataLen)
	b[3], b[15] = 9, 8 // P_Key 1; GUID 1
	if status := p.PKeyTable(0, b, true); status != smp.StatusOK || p.PKeys[1] != 9 || p.PKeys[0] != 0 {
		t.Errorf("P_Keys: %#x, %v", status, p.PKeys)
	}
	clear(b)
	b[7], b[15] = 1, 8
	if status := p.GUIDInfo(0, b, true); status != smp.StatusOK || p.GUIDs[1] != 8 || p.GUIDs[0] != 7 || b[7] != 7 {
		t.Errorf("GUIDs: %#x, %v", status, p.GUIDs)
	}
	external := NewPort(External, 0)
	if p.PKeyTable(1, b, false) != smp.StatusBadValue || p.GUIDInfo(1, b, false) != smp.StatusBadValue ||
		external.GUIDInfo(0, b, false) != smp.StatusBadValue {
		t.Error("tables that there are not")
	}
}
