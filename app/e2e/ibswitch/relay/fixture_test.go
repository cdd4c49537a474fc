// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

const (
	switchGUID = 0x0002c90300000100
	switchLID  = 2
	smLID      = 1 // at port 1
)

// fakeLink is a link that the test is the other end of.
type fakeLink struct {
	port   link.Port
	begun  atomic.Int64 // calls of Send
	sent   chan []byte
	plugs  chan bool
	trains chan struct{}
	wrong  error // of Send
}

func newFakeLink() *fakeLink {
	return &fakeLink{sent: make(chan []byte, 10_000), plugs: make(chan bool, 100), trains: make(chan struct{}, 100)}
}

func (l *fakeLink) Start(p link.Port) { l.port = p }
func (l *fakeLink) Send(b []byte) error {
	l.begun.Add(1)
	if l.wrong != nil {
		return l.wrong
	}
	l.sent <- b
	return nil
}
func (l *fakeLink) Retrain()     { l.trains <- struct{}{} }
func (l *fakeLink) Plug(in bool) { l.plugs <- in }
func (l *fakeLink) Close() error { return nil }

// fixture is a switch with ports at fake links, links[0] that of port 1.
type fixture struct {
	t     testing.TB
	sw    *Switch
	links []*fakeLink
}

// newFixture makes a switch whose links are up. All packets must be accounted for at the end.
func newFixture(t testing.TB, ports int) *fixture {
	f := &fixture{t: t, sw: New(Config{GUID: switchGUID, Description: "a switch"})}
	for i := range ports {
		l := newFakeLink()
		f.links = append(f.links, l)
		if err := f.sw.Add(string(rune('a'+i)), l); err != nil {
			t.Fatal(err)
		}
	}
	f.sw.Start()
	for _, l := range f.links {
		l.port.LinkChanged(true)
	}
	t.Cleanup(func() {
		f.conserved()
		if err := f.sw.Close(); err != nil {
			t.Error(err)
		}
		f.conserved()
	})
	return f
}

// configured is newFixture, as a subnet manager leaves it: port n leads to LID 10+n, port 1 to the manager.
func configured(t testing.TB, ports int) *fixture {
	f := newFixture(t, ports)
	f.setPort(0, func(i *smp.PortInfo) { i.LID, i.SMLID = switchLID, smLID })
	f.sw.linear[smLID], f.sw.linear[switchLID] = 1, 0
	for n := 1; n <= ports; n++ {
		f.sw.linear[10+n] = uint8(n)
		f.setPort(n, func(i *smp.PortInfo) { i.State = smp.Armed })
		f.setPort(n, func(i *smp.PortInfo) { i.State = smp.Active })
	}
	return f
}

// conserved waits until no packet is in a queue: then received + copies = sent + drops.
func (f *fixture) conserved() {
	f.t.Helper()
	var in, out uint64
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		waiting := 0
		in, out = 0, 0
		for _, p := range f.sw.Counts() {
			in += p.Received + p.Copies
			out += p.Sent
			waiting += p.Waiting
			for _, n := range p.Drops {
				out += n
			}
		}
		if waiting == 0 && in == out {
			return
		}
	}
	f.t.Errorf("%d packets came, %d were sent or dropped: %+v", in, out, f.sw.Counts())
}

// drops returns how often a port has dropped for a reason.
func (f *fixture) drops(port int, name string) uint64 { return f.sw.Counts()[port].Drops[name] }

// next returns the next packet out of a port.
func (f *fixture) next(port int) []byte {
	f.t.Helper()
	select {
	case b := <-f.links[port-1].sent:
		return b
	case <-time.After(5 * time.Second):
		f.t.Fatalf("nothing leaves by port %d: %+v", port, f.sw.Counts())
		return nil
	}
}

// nothing fails if a packet leaves by a port.
func (f *fixture) nothing(ports ...int) {
	f.t.Helper()
	f.conserved() // nothing waits
	for _, port := range ports {
		if n := len(f.links[port-1].sent); n > 0 {
			f.t.Errorf("%d packets left by port %d", n, port)
		}
	}
}

// mad makes an SMP. A directed route, if any, ends at the switch.
func mad(class, method uint8, attr uint16, mod uint32, data []byte) smp.SMP {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: class, ClassVersion: 1, Method: method, AttrID: attr, AttrMod: mod, TID: 0x1234})
	copy(b[64:128], data)
	if class == ib.ClassSubnDirected {
		b[6], b[7] = 1, 1 // one hop, made
		b[129] = 1        // by the manager's port
		binary.BigEndian.PutUint32(b[32:], 0xffffffff)
	}
	m, _ := smp.As(b)
	return m
}

// ask sends a directed-route request by port 1 and returns the response.
func (f *fixture) ask(method uint8, attr uint16, mod uint32, data []byte) smp.SMP {
	f.t.Helper()
	f.links[0].port.Receive(mad(ib.ClassSubnDirected, method, attr, mod, data).Packet(0xffff, 0xffff))
	return f.response(1)
}

// response returns the SMP that leaves next by a port.
func (f *fixture) response(port int) smp.SMP {
	f.t.Helper()
	p, fault := ib.ParsePacket(f.next(port))
	m, ok := smp.As(p.Payload)
	if !ok {
		f.t.Fatalf("not an SMP: %v %+v", fault, p)
	}
	return m
}

func status(m smp.SMP) uint16 { return m.MAD().Status() &^ 0x8000 }

// setPort sets fields of a port's PortInfo.
func (f *fixture) setPort(port int, change func(*smp.PortInfo)) smp.PortInfo {
	f.t.Helper()
	i := smp.ParsePortInfo(f.ask(ib.MethodGet, smp.AttrPortInfo, uint32(port), nil).Data())
	i.State, i.Physical = smp.NoChange, 0
	change(&i)
	b := make([]byte, smp.DataLen)
	i.Put(b)
	m := f.ask(ib.MethodSet, smp.AttrPortInfo, uint32(port), b)
	if status(m) != smp.StatusOK {
		f.t.Fatalf("Set(PortInfo) of port %d: status %#x", port, status(m))
	}
	return smp.ParsePortInfo(m.Data())
}

// datagram makes a packet; change changes it.
func datagram(slid, dlid ib.LID, change func(*ib.Packet)) []byte {
	p := ib.Packet{
		SLID: slid, DLID: dlid, OpCode: ib.OpUDSendOnly, PKey: ib.PKeyDefault, DestQP: 7, SrcQP: 8, QKey: 9, Payload: []byte("payload"),
	}
	if dlid.IsMulticast() {
		p.DestQP, p.GRH = ib.QPMulticast, &ib.GRHFields{DGID: ib.GID{0xff, 0x12}}
	}
	if change != nil {
		change(&p)
	}
	return p.AppendTo(nil)
}
