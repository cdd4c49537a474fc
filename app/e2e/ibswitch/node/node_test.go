// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

const (
	guid = 0x0002c90300000101
	qpn  = 0x48
	smID = 1
)

// fixture is a node; the test is the other end of its link.
type fixture struct {
	t      *testing.T
	node   *Node
	end    *link.End
	came   chan []byte
	up     chan bool
	events chan string
}

func (f *fixture) Receive(b []byte)    { f.came <- b }
func (f *fixture) LinkChanged(up bool) { f.up <- up }

func newFixture(t *testing.T) *fixture {
	near, far := link.Pipe()
	f := &fixture{t: t, end: near, came: make(chan []byte, 100), up: make(chan bool, 10), events: make(chan string, 100)}
	f.node = New(Config{
		NodeConfig: fabric.NodeConfig{Name: "echo1", GUID: guid, Role: fabric.RoleEcho, QPN: qpn}, Event: func(s string) { f.events <- s },
	}, far)
	f.node.Start()
	near.Start(f)
	t.Cleanup(func() {
		f.node.Close()
		near.Close()
	})
	f.isUp(true)
	for deadline := time.Now().Add(5 * time.Second); f.node.Stats().State != "init"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node's port is not in init")
		}
	}
	return f
}

func (f *fixture) isUp(want bool) {
	f.t.Helper()
	select {
	case up := <-f.up:
		if up != want {
			f.t.Fatalf("link up: %v", up)
		}
	case <-time.After(5 * time.Second):
		f.t.Fatal("the link does not change")
	}
}

// event waits for an event that begins with a text.
func (f *fixture) event(want string) {
	f.t.Helper()
	for {
		select {
		case e := <-f.events:
			if strings.HasPrefix(e, want) {
				return
			}
			f.t.Log(e)
		case <-time.After(5 * time.Second):
			f.t.Fatalf("no event %q: %+v", want, f.node.Stats())
		}
	}
}

// next returns the next packet of the node.
func (f *fixture) next() ib.Packet {
	f.t.Helper()
	select {
	case b := <-f.came:
		p, fault := ib.ParsePacket(b)
		if fault != ib.FaultNone {
			f.t.Fatal(fault)
		}
		return p
	case <-time.After(5 * time.Second):
		f.t.Fatalf("the node sends nothing: %+v", f.node.Stats())
		return ib.Packet{}
	}
}

func request(class, method uint8, attr uint16, mod uint32, data []byte) smp.SMP {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: class, ClassVersion: 1, Method: method, AttrID: attr, AttrMod: mod})
	copy(b[64:128], data)
	if class == ib.ClassSubnDirected {
		b[6], b[7], b[129] = 1, 1, 1
		binary.BigEndian.PutUint32(b[32:], 0xffffffff)
	}
	m, _ := smp.As(b)
	return m
}

// ask sends a directed-route request of one hop, and returns the response.
func (f *fixture) ask(method uint8, attr uint16, mod uint32, data []byte) smp.SMP {
	f.t.Helper()
	if err := f.end.Send(request(ib.ClassSubnDirected, method, attr, mod, data).Packet(0xffff, 0xffff)); err != nil {
		f.t.Fatal(err)
	}
	m, ok := smp.As(f.next().Payload)
	if !ok || m.HopPointer() != 1 || !m.Returns() {
		f.t.Fatalf("not a response: % x", m[:64])
	}
	return m
}

func (f *fixture) set(change func(*smp.PortInfo)) {
	f.t.Helper()
	i := smp.PortInfo{LID: 4, LMC: 1, SMLID: smID, Prefix: 0xfe80 << 48, NeighborMTU: ib.MTU2048}
	change(&i)
	b := make([]byte, smp.DataLen)
	i.Put(b)
	if m := f.ask(ib.MethodSet, smp.AttrPortInfo, 1, b); m.MAD().Status() != 0x8000 {
		f.t.Fatalf("status %#x", m.MAD().Status())
	}
}

func (f *fixture) activate() {
	f.t.Helper()
	f.set(func(i *smp.PortInfo) { i.State = smp.Armed })
	f.set(func(i *smp.PortInfo) { i.State = smp.Active })
	f.event("node echo1 lid 0x0004 qpn 0x48 active")
}

func ping(dlid ib.LID) []byte {
	p := ib.Packet{
		SLID: smID, DLID: dlid, OpCode: ib.OpUDSendOnly, PKey: ib.PKeyDefault, DestQP: qpn, SrcQP: 9, QKey: ib.QKeyRDMAUDP, Payload: []byte("ping"),
	}
	return p.AppendTo(nil)
}

// TestEcho: once active, the node answers on each of its LIDs, and on no other.
func TestEcho(t *testing.T) {
	f := newFixture(t)
	if err := f.end.Send(ping(4)); err != nil {
		t.Fatal(err)
	}
	if s := f.node.Stats(); s.Drops["not_active"] != 1 {
		t.Errorf("before it is active: %+v", s)
	}
	f.activate()
	for _, dlid := range []ib.LID{6, 4, 5} {
		if err := f.end.Send(ping(dlid)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if p := f.next(); string(p.Payload) != "ping" || p.SLID != 4 || p.DLID != smID || p.DestQP != 9 || p.SrcQP != qpn {
			t.Errorf("%+v", p)
		}
	}
	s := f.node.Stats()
	if s.Node.Echoed != 2 || s.HCA.Drops[fabric.DropDLID] != 1 {
		t.Errorf("%+v %+v", s.Node, s.HCA)
	}
}

// TestChanges: what the subnet manager sets anew starts the node anew; what it only repeats does not.
func TestChanges(t *testing.T) {
	f := newFixture(t)
	f.activate()
	f.set(func(*smp.PortInfo) {})
	f.set(func(i *smp.PortInfo) { i.LID = 8 })
	f.event("node echo1 inactive")
	f.event("node echo1 lid 0x0008 qpn 0x48 active")
	f.ask(ib.MethodSet, smp.AttrPKeyTable, 0, []byte{0xff, 0xff, 0x80, 5})
	f.event("node echo1 lid 0x0008 qpn 0x48 active")
	f.end.Plug(false)
	f.isUp(false)
	f.event("node echo1 inactive")
	f.end.Plug(true)
	f.isUp(true)
	f.set(func(i *smp.PortInfo) { i.State = smp.Down })
	f.isUp(false)
	f.isUp(true)
	if s := f.node.Stats(); s.Node != nil || len(f.events) > 0 {
		t.Errorf("it runs, though nobody has made it active again: %+v", s)
	}
}

func TestAgent(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		method uint8
		attr   uint16
		mod    uint32
		status uint16
		at     int
		want   string
	}{
		{ib.MethodGet, smp.AttrNodeInfo, 0, 0, 2, "\x01\x01\x00\x02\xc9\x03\x00\x00\x01\x01"},
		{ib.MethodSet, smp.AttrNodeInfo, 0, smp.StatusBadAttribute, 0, ""},
		{ib.MethodGet, smp.AttrNodeDescription, 0, 0, 0, "echo1\x00"},
		{ib.MethodGet, smp.AttrPortInfo, 1, 0, 32, "\x72\x52"},
		{ib.MethodGet, smp.AttrPortInfo, 2, smp.StatusBadValue, 0, ""},
		{ib.MethodGet, smp.AttrPKeyTable, 0, 0, 0, "\xff\xff\x00\x00"},
		{ib.MethodGet, smp.AttrGUIDInfo, 0, 0, 4, "\x00\x00\x01\x01"},
		{ib.MethodGet, smp.AttrSLToVL, 0, 0, 0, "\x00"},
		{ib.MethodGet, smp.AttrSwitchInfo, 0, smp.StatusBadAttribute, 0, ""},
	} {
		m := f.ask(c.method, c.attr, c.mod, nil)
		if m.MAD().Status()&^0x8000 != c.status || !strings.HasPrefix(string(m.Data()[c.at:]), c.want) {
			t.Errorf("attribute %#x, method %d: status %#x, % x", c.attr, c.method, m.MAD().Status(), m.Data())
		}
	}
}

// TestByLID: requests by LID, for us and not for us.
func TestByLID(t *testing.T) {
	f := newFixture(t)
	f.set(func(*smp.PortInfo) {})
	get := request(ib.ClassSubnLID, ib.MethodGet, smp.AttrNodeInfo, 0, nil)
	for _, dlid := range []ib.LID{9, 0xffff, 4} {
		if err := f.end.Send(get.Packet(smID, dlid)); err != nil {
			t.Fatal(err)
		}
	}
	if p := f.next(); p.SLID != 4 || p.DLID != smID || p.VL != 15 {
		t.Errorf("%+v", p)
	}
	if s := f.node.Stats(); s.Drops["smp_malformed"] != 2 {
		t.Errorf("%+v", s)
	}
}
