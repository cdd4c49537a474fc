// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"strings"
	"testing"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// TestAttributes: requests, and the status and some bytes of the response, by offset in the attribute.
func TestAttributes(t *testing.T) {
	f := newFixture(t, 4)
	block := bytes.Repeat([]byte{3}, smp.DataLen)
	info := make([]byte, smp.DataLen)
	smp.SwitchInfo{LinearTop: 77, PortStateChange: true, LifeTime: 18}.Put(info)
	tooLong := make([]byte, smp.DataLen)
	smp.SwitchInfo{LinearTop: 0xffff}.Put(tooLong)
	for _, c := range []struct {
		name   string
		method uint8
		attr   uint16
		mod    uint32
		data   []byte
		status uint16
		at     int
		want   []byte
	}{
		{"node info", ib.MethodGet, smp.AttrNodeInfo, 0, nil, 0, 0, []byte{1, 1, smp.TypeSwitch, 4, 0, 2, 0xc9, 3, 0, 0, 1, 0}},
		{"local port", ib.MethodGet, smp.AttrNodeInfo, 0, nil, 0, 36, []byte{1}},
		{"node info cannot be set", ib.MethodSet, smp.AttrNodeInfo, 0, nil, smp.StatusBadAttribute, 0, nil},
		{"node description", ib.MethodGet, smp.AttrNodeDescription, 0, nil, 0, 0, []byte("a switch\x00")},
		{"node description cannot be set", ib.MethodSet, smp.AttrNodeDescription, 0, nil, smp.StatusBadAttribute, 0, nil},
		{"switch info: caps", ib.MethodGet, smp.AttrSwitchInfo, 0, nil, 0, 0, []byte{0xc0, 0, 0, 0, 4, 0, 0, 0}},
		{"switch info: a port has changed", ib.MethodGet, smp.AttrSwitchInfo, 0, nil, 0, 11, []byte{19<<3 | 4}},
		{"switch info: partitions", ib.MethodGet, smp.AttrSwitchInfo, 0, nil, 0, 14, []byte{0, 16, 0xc0}},
		{"set switch info, clear the change", ib.MethodSet, smp.AttrSwitchInfo, 0, info, 0, 6, []byte{0, 77, 0, 0, 0, 18 << 3}},
		{"switch info: top too high", ib.MethodSet, smp.AttrSwitchInfo, 0, tooLong, smp.StatusBadValue, 6, []byte{0, 77}},
		{"port info of port 0", ib.MethodGet, smp.AttrPortInfo, 0, nil, 0, 32, []byte{0x74, 0x52}},
		{"port info of port 4", ib.MethodGet, smp.AttrPortInfo, 4, nil, 0, 32, []byte{0x72, 0x52}},
		{"port info of port 5", ib.MethodGet, smp.AttrPortInfo, 5, nil, smp.StatusBadValue, 0, nil},
		{"guid info", ib.MethodGet, smp.AttrGUIDInfo, 0, nil, 0, 0, []byte{0, 2, 0xc9, 3, 0, 0, 1, 0, 0}},
		{"guid info, no such block", ib.MethodGet, smp.AttrGUIDInfo, 1, nil, smp.StatusBadValue, 0, nil},
		{"P_Keys", ib.MethodSet, smp.AttrPKeyTable, 2 << 16, []byte{0x80, 5, 0, 6}, 0, 0, []byte{0x80, 5, 0, 6, 0, 0}},
		{"P_Keys of another port", ib.MethodGet, smp.AttrPKeyTable, 3 << 16, nil, 0, 0, []byte{0xff, 0xff, 0, 0}},
		{"P_Keys, no such block", ib.MethodGet, smp.AttrPKeyTable, 2<<16 | 1, nil, smp.StatusBadValue, 0, nil},
		{"P_Keys, no such port", ib.MethodGet, smp.AttrPKeyTable, 5 << 16, nil, smp.StatusBadValue, 0, nil},
		{"SL to VL", ib.MethodSet, smp.AttrSLToVL, 0x0102, block, 0, 0, make([]byte, 8)},
		{"VL arbitration", ib.MethodGet, smp.AttrVLArbitration, 1<<16 | 2, nil, 0, 0, make([]byte, 8)},
		{"VL arbitration, no such port", ib.MethodGet, smp.AttrVLArbitration, 1<<16 | 9, nil, smp.StatusBadValue, 0, nil},
		{"linear table at first", ib.MethodGet, smp.AttrLinearFDB, 767, nil, 0, 63, []byte{noPort}},
		{"linear table", ib.MethodSet, smp.AttrLinearFDB, 767, block, 0, 0, block},
		{"linear table, no such block", ib.MethodGet, smp.AttrLinearFDB, 768, nil, smp.StatusBadValue, 0, nil},
		{"multicast table", ib.MethodSet, smp.AttrMulticastFDB, 31, block, 0, 0, block},
		{"multicast table, no such block", ib.MethodGet, smp.AttrMulticastFDB, 32, nil, smp.StatusBadValue, 0, nil},
		{"multicast table, no such position", ib.MethodGet, smp.AttrMulticastFDB, 1 << 28, nil, smp.StatusBadValue, 0, nil},
		{"subnet manager info", ib.MethodGet, 0x0020, 0, nil, smp.StatusBadAttribute, 0, nil},
		{"another method", ib.MethodSend, smp.AttrNodeInfo, 0, nil, smp.StatusBadMethod, 0, nil},
	} {
		m := f.ask(c.method, c.attr, c.mod, c.data)
		if status(m) != c.status || m.MAD().TID() != 0x1234 || m.MAD().Method() != ib.MethodGetResp {
			t.Errorf("%s: status %#x, want %#x; %+v", c.name, status(m), c.status, m.MAD().Fields())
		} else if !bytes.HasPrefix(m.Data()[c.at:], c.want) {
			t.Errorf("%s: % x at %d", c.name, m.Data()[c.at:][:len(c.want)], c.at)
		}
	}
}

// TestDownAndDisable: what a Set of PortInfo has the link do.
func TestDownAndDisable(t *testing.T) {
	f := newFixture(t, 2)
	if i := f.setPort(2, func(i *smp.PortInfo) { i.State = smp.Down }); i.State != smp.Down {
		t.Errorf("set to down: %v", i.State)
	}
	<-f.links[1].trains
	f.links[1].port.LinkChanged(false)
	f.links[1].port.LinkChanged(true)
	f.setPort(2, func(i *smp.PortInfo) { i.Physical = smp.PhysicalDisabled })
	if <-f.links[1].plugs {
		t.Error("a disabled link is plugged in")
	}
	f.links[1].port.LinkChanged(false)
	if err := f.sw.Plug("b", true); err != nil || <-f.links[1].plugs {
		t.Errorf("a cable in a disabled port: %v", err)
	}
	f.setPort(2, func(i *smp.PortInfo) { i.Physical = smp.PhysicalPolling })
	if !<-f.links[1].plugs {
		t.Error("an enabled link is not plugged in")
	}
	if err := f.sw.Plug("b", false); err != nil || <-f.links[1].plugs {
		t.Errorf("pulled: %v", err)
	}
	if err := f.sw.Plug("z", true); err == nil || !strings.Contains(err.Error(), "z") {
		t.Errorf("a port that there is not: %v", err)
	}
}

// TestByLID: requests by LID are answered by LID; requests for others go on by the table, to ports of any state.
func TestByLID(t *testing.T) {
	f := newFixture(t, 3)
	f.setPort(0, func(i *smp.PortInfo) { i.LID, i.SMLID = switchLID, smLID })
	f.sw.linear[smLID], f.sw.linear[13] = 1, 3
	get := mad(ib.ClassSubnLID, ib.MethodGet, smp.AttrNodeInfo, 0, nil)
	f.links[0].port.Receive(get.Packet(smLID, switchLID))
	p, _ := ib.ParsePacket(f.next(1))
	if m, ok := smp.As(p.Payload); !ok || status(m) != 0 || m.Returns() || p.SLID != switchLID || p.DLID != smLID {
		t.Errorf("%+v", p)
	}
	f.links[0].port.Receive(get.Packet(smLID, 13))
	if got := f.next(3); !bytes.Equal(got, get.Packet(smLID, 13)) {
		t.Errorf("relayed: % x", got)
	}
	f.links[0].port.Receive(get.Packet(smLID, 14))
	f.links[0].port.Receive(get.Packet(smLID, ib.LIDPermissive))
	f.nothing(1, 2, 3)
	if f.drops(1, "no_route") != 1 || f.drops(1, "smp_route") != 1 {
		t.Errorf("%+v", f.sw.Counts())
	}
}

func TestPerformance(t *testing.T) {
	f := configured(t, 3)
	f.links[0].port.Receive(datagram(11, 13, nil))
	f.links[0].port.Receive(datagram(11, 99, nil))
	f.next(3)
	ask := func(method uint8, attr uint16, port uint8) []byte {
		b := make([]byte, ib.MADLen)
		ib.PutMAD(b, ib.MADFields{Class: classPerformance, ClassVersion: 1, Method: method, AttrID: attr})
		b[65] = port
		f.conserved()
		f.links[0].port.Receive(datagram(smLID, switchLID, func(p *ib.Packet) {
			p.DestQP, p.SrcQP, p.QKey, p.Payload = ib.QP1, ib.QP1, ib.QKeyGSI, b
		}))
		p, fault := ib.ParsePacket(f.next(1))
		if fault != ib.FaultNone || p.DLID != smLID || p.SLID != switchLID || p.DestQP != ib.QP1 {
			t.Fatalf("%v %+v", fault, p)
		}
		return p.Payload
	}
	if b := ask(ib.MethodGet, attrClassPortInfo, 0); b[66] != 3 {
		t.Errorf("ClassPortInfo: % x", b[64:80])
	}
	ask(ib.MethodSet, attrPortCounters, 3)
	f.links[0].port.Receive(datagram(11, 13, nil))
	f.next(3)
	// 40 bytes of packet, without the VCRC.
	if b := ask(ib.MethodGet, attrPortCounters, 3); b[64+35] != 1 || b[64+27] != 10 {
		t.Errorf("port 3: % x", b[64:104])
	}
	if b := ask(ib.MethodGet, attrPortCounters, 1); b[64+13] != 1 {
		t.Errorf("port 1: % x", b[64:104])
	}
	if b := ask(ib.MethodGet, attrPortCountersExt, allPorts); b[64+31] == 0 {
		t.Errorf("all: % x", b[64:136])
	}
	if b := ask(ib.MethodGet, attrPortCounters, 4); b[5] != byte(smp.StatusBadValue) {
		t.Errorf("port 4: % x", b[:8])
	}
	if b := ask(ib.MethodGet, 0x99, 1); b[5] != byte(smp.StatusBadAttribute) {
		t.Errorf("an attribute that there is not: % x", b[:8])
	}
}
