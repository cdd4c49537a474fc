// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"causeway/ibside/ib"
)

// request makes a directed-route SMP with this initial path: its first port is the sender's.
func request(method uint8, attr uint16, path ...uint8) SMP {
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{Class: ib.ClassSubnDirected, ClassVersion: ClassVersion, Method: method, AttrID: attr})
	m := SMP(mad)
	m[offHopCount] = uint8(len(path))
	copy(m[offInitialPath+1:], path)
	binary.BigEndian.PutUint16(m[offDrSLID:], uint16(ib.LIDPermissive))
	binary.BigEndian.PutUint16(m[offDrDLID:], uint16(ib.LIDPermissive))
	return m
}

func TestAs(t *testing.T) {
	good := request(ib.MethodGet, AttrNodeInfo)
	other, old := good.Clone(), good.Clone()
	other[1], old[0] = ib.ClassSA, 2
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"good": {good, true}, "short": {good[:255], false}, "empty": {nil, false}, "of another class": {other, false}, "of another version": {old, false},
	} {
		if _, ok := As(c.b); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestServe(t *testing.T) {
	answer := func(_ SMP, set bool) uint16 {
		if set {
			return StatusBadValue
		}
		return StatusOK
	}
	for _, c := range []struct {
		name            string
		method, version uint8
		directed        bool
		answers         bool
		status          uint16
	}{
		{"get", ib.MethodGet, 1, true, true, StatusOK | directionBit<<8},
		{"get by LID", ib.MethodGet, 1, false, true, StatusOK},
		{"set", ib.MethodSet, 1, false, true, StatusBadValue},
		{"another method", ib.MethodSend, 1, false, true, StatusBadMethod},
		{"another version", ib.MethodGet, 2, true, true, StatusBadVersion | directionBit<<8},
		{"a response", ib.MethodGetResp, 1, true, false, 0},
		{"a trap", MethodTrap, 1, false, false, 0},
		{"a trap's end", MethodTrapRepress, 1, false, false, 0},
	} {
		m := request(c.method, AttrNodeInfo)
		m[2] = c.version
		if !c.directed {
			m[1] = ib.ClassSubnLID
		}
		if got := Serve(m, answer); got != c.answers {
			t.Errorf("%s: %v", c.name, got)
		} else if got && (m.MAD().Status() != c.status || m.MAD().Method() != ib.MethodGetResp) {
			t.Errorf("%s: status %#x, want %#x", c.name, m.MAD().Status(), c.status)
		}
	}
}

// TestAttributes writes and reads random values: what is not a reserved bit stays.
func TestAttributes(t *testing.T) {
	random, once, twice := make([]byte, DataLen), make([]byte, DataLen), make([]byte, DataLen)
	for range 100 {
		for i := range random {
			random[i] = uint8(rand.Uint32())
		}
		ParsePortInfo(random).Put(once)
		ParsePortInfo(once).Put(twice)
		if string(once) != string(twice) || ParsePortInfo(random) != ParsePortInfo(once) {
			t.Fatalf("PortInfo: % x became % x", random, once)
		}
		ParseSwitchInfo(random).Put(once)
		if ParseSwitchInfo(random) != ParseSwitchInfo(once) {
			t.Fatalf("SwitchInfo: % x became % x", random, once)
		}
	}
}

// TestPortInfoBytes has the bytes at the offsets of opensm's ib_port_info_t.
func TestPortInfoBytes(t *testing.T) {
	b := make([]byte, DataLen)
	PortInfo{
		LID: 0x1234, SMLID: 0x5678, Capabilities: CapTrap, LocalPort: 3, State: Active, SpeedSupported: 7, Physical: PhysicalLinkUp,
		DownDefault: PhysicalPolling, MKeyProtect: 1, LMC: 2, NeighborMTU: ib.MTU4096, SMSL: 3, VLCap: 1, MTUCap: ib.MTU2048,
		OperationalVLs: 1, Enforcement: EnforceInbound | EnforceOutbound, GUIDCap: 8, Reregister: true, SubnetTimeout: 18,
	}.Put(b)
	for at, want := range map[int]uint8{
		16: 0x12, 17: 0x34, 18: 0x56, 19: 0x78, 23: 8, 28: 3, 32: 0x74, 33: 0x52, 34: 0x42, 36: 0x53, 37: 0x10, 41: 4, 43: 0x1c, 50: 8, 51: 0x92,
	} {
		if b[at] != want {
			t.Errorf("byte %d is %#x, want %#x", at, b[at], want)
		}
	}
}

func TestPacket(t *testing.T) {
	m := request(ib.MethodGet, AttrNodeInfo, 1)
	p, fault := ib.ParsePacket(m.Packet(ib.LIDPermissive, ib.LIDPermissive))
	if fault != ib.FaultNone || p.VL != ib.VLSubnetManagement || string(p.Payload) != string(m) {
		t.Errorf("%+v, %v", p, fault)
	}
}
