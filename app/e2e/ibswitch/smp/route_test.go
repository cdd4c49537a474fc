// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"
	"testing"

	"causeway/ibside/ib"
)

// TestRoute takes a request over two switches to an adapter, and its response back:
//
//	SM 1 ── 3 switch 5 ── 2 switch 7 ── 1 adapter
func TestRoute(t *testing.T) {
	m := request(ib.MethodGet, AttrNodeInfo, 1, 5, 7)
	m[offHopPointer] = 1 // as the sender has it leave
	for i, c := range []struct {
		ingress, ports uint8
		want           Step
		pointer        uint8
	}{
		{3, 8, Step{Action: Relay, Port: 5}, 2},
		{2, 8, Step{Action: Relay, Port: 7}, 3},
		{1, 0, Step{Action: Deliver}, 4},
	} {
		if got := m.Route(c.ingress, c.ports); got != c.want || m.HopPointer() != c.pointer {
			t.Fatalf("hop %d: %+v, pointer %d", i+1, got, m.HopPointer())
		}
	}
	if !Serve(m, func(SMP, bool) uint16 { return StatusOK }) || !m.Returns() {
		t.Fatal("no response")
	}
	if got := m.Return(0); got != (Step{Action: Relay, Port: 1}) {
		t.Fatalf("return: %+v", got)
	}
	for i, c := range []struct {
		ingress, ports uint8
		want           Step
	}{
		{7, 8, Step{Action: Relay, Port: 2}}, {5, 8, Step{Action: Relay, Port: 3}}, {1, 0, Step{Action: Deliver}},
	} {
		if got := m.Route(c.ingress, c.ports); got != c.want {
			t.Fatalf("back, hop %d: %+v", i+1, got)
		}
	}
	if m.HopPointer() != 0 {
		t.Errorf("the response ends with pointer %d", m.HopPointer())
	}
}

// TestRouteAtSwitch has a switch itself answer: one hop.
func TestRouteAtSwitch(t *testing.T) {
	m := request(ib.MethodGet, AttrNodeInfo, 1)
	m[offHopPointer] = 1
	if got := m.Route(3, 8); got.Action != Deliver {
		t.Fatalf("%+v", got)
	}
	Serve(m, func(SMP, bool) uint16 { return StatusOK })
	if got := m.Return(8); got != (Step{Action: Relay, Port: 3}) || m.HopPointer() != 1 {
		t.Errorf("%+v, pointer %d", got, m.HopPointer())
	}
}

// TestRouteCases are single steps: (§14.2.2.2) forth, (§14.2.2.4) back.
func TestRouteCases(t *testing.T) {
	for _, c := range []struct {
		name           string
		pointer, count uint8
		back           bool
		slid, dlid     ib.LID
		ports          uint8
		want           Step
	}{
		{"not sent yet", 0, 2, false, 0xffff, 0xffff, 8, Step{}},
		{"beyond the end", 4, 2, false, 0xffff, 0xffff, 8, Step{}},
		{"too many hops", 1, 64, false, 0xffff, 0xffff, 8, Step{}},
		{"by a port that there is not", 1, 2, false, 0xffff, 0xffff, 4, Step{}},
		{"through an adapter", 1, 2, false, 0xffff, 0xffff, 0, Step{}},
		{"the rest by LID", 2, 2, false, 0xffff, 7, 8, Step{Action: ByLID, DLID: 7}},
		{"the rest by LID from an adapter", 2, 2, false, 0xffff, 7, 0, Step{}},
		{"the rest to a group", 2, 2, false, 0xffff, 0xc000, 8, Step{}},
		{"came by LID", 3, 2, false, 0xffff, 7, 0, Step{Action: Deliver}},
		{"no hops", 0, 0, false, 0xffff, 0xffff, 8, Step{Action: Deliver}},
		{"back: directed again", 3, 2, true, 0xffff, 7, 8, Step{Action: Relay, Port: 6}},
		{"back: through", 2, 2, true, 0xffff, 0xffff, 8, Step{Action: Relay, Port: 4}},
		{"back: the rest by LID", 1, 2, true, 9, 0xffff, 8, Step{Action: ByLID, DLID: 9}},
		{"back: at the sender", 1, 2, true, 0xffff, 0xffff, 0, Step{Action: Deliver}},
		{"back: given to the sender", 0, 2, true, 0xffff, 0xffff, 8, Step{Action: Deliver}},
		{"back: beyond the end", 4, 2, true, 0xffff, 0xffff, 8, Step{}},
		{"back: through an adapter", 2, 2, true, 0xffff, 0xffff, 0, Step{}},
	} {
		m := request(ib.MethodGet, AttrNodeInfo, 1, 5)
		m[offHopPointer], m[offHopCount] = c.pointer, c.count
		copy(m[offReturnPath+1:], []byte{4, 6})
		binary.BigEndian.PutUint16(m[offDrSLID:], uint16(c.slid))
		binary.BigEndian.PutUint16(m[offDrDLID:], uint16(c.dlid))
		if c.back {
			m[offStatus] |= directionBit
		}
		if got := m.Route(2, c.ports); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
