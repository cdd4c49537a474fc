// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"fmt"
	"testing"

	"causeway/ibside/ib"
)

// wire is a Port whose other end is the test.
type wire struct {
	info PortInfo
	in   *queue
	sent chan []byte
}

func newWire() *wire {
	return &wire{
		info: PortInfo{
			Name: "wire", GUID: 0x22, GID: mustGID("fe80::22"), LID: 5, SMLID: 1, MTU: ib.MTU1024,
			PKeys: []ib.PKey{0xffff, 0x0001, 0x8002},
		},
		in: newQueue(1024), sent: make(chan []byte, 1024),
	}
}

func (w *wire) Info() PortInfo { return w.info }

func (w *wire) Down() string { return "" }

func (w *wire) Sent() bool    { return true }
func (w *wire) Drained() bool { return w.in.isDone() }

func (w *wire) Send(packets ...[]byte) int {
	for _, p := range packets {
		w.sent <- p
	}
	return len(packets)
}

func (w *wire) Recv(p [][]byte) (int, error) {
	if n := w.in.take(p); n > 0 {
		return n, nil
	}
	return 0, ErrClosed
}

func (w *wire) Close() error {
	w.in.close()
	return nil
}

// newWireHCA returns an adapter whose counters are checked at the end.
func newWireHCA(t testing.TB) (*HCA, *wire) {
	w := newWire()
	h := NewHCA(w)
	t.Cleanup(func() {
		h.Close()
		checkHCA(t, "wire", h)
	})
	return h, w
}

// feed passes packets to the adapter and waits until it has handled them.
func (w *wire) feed(t testing.TB, packets ...[]byte) {
	for _, p := range packets {
		w.in.put([][]byte{p})
	}
	waitFor(t, "idle adapter", w.in.idle)
}

const testQPN, testQKey = ib.QPN(0x777), ib.QKey(0x1234)

// good is a unicast message for the queue pair of TestReceive.
func good(change func(p *ib.Packet)) []byte {
	p := ib.Packet{
		SLID: 9, DLID: 5, OpCode: ib.OpUDSendOnly, PKey: 0xffff, DestQP: testQPN, QKey: testQKey, SrcQP: 0x48, Payload: []byte("Hello"),
	}
	if change != nil {
		change(&p)
	}
	return p.AppendTo(nil)
}

var testMGID = mustGID("ff12:4001:ffff::f01:203")

func multicast(change func(p *ib.Packet)) []byte {
	return good(func(p *ib.Packet) {
		p.DLID, p.DestQP = 0xc003, ib.QPMulticast
		p.GRH = &ib.GRHFields{SGID: mustGID("fe80::9"), DGID: testMGID}
		if change != nil {
			change(p)
		}
	})
}

// receiveCase is a packet for the wire adapter, and the reason for which it is dropped.
type receiveCase struct {
	name   string
	packet []byte
	drop   string // "" is delivered
}

func receiveCases() []receiveCase {
	flip := func(b []byte, at int, fixVCRC bool) []byte {
		b[at] ^= 1
		if n := len(b) - ib.VCRCLen; fixVCRC {
			ib.PutVCRC(b[n:], ib.VCRC(b[:n]))
		}
		return b
	}
	global := func(p *ib.Packet) {
		p.GRH = &ib.GRHFields{SGID: mustGID("fe80::9"), DGID: mustGID("fe80::22"), HopLimit: 7}
	}
	return []receiveCase{
		{"unicast", good(nil), ""},
		{"unicast with GRH", good(global), ""},
		{"empty payload", good(func(p *ib.Packet) { p.Payload = nil }), ""},
		{"largest payload", good(func(p *ib.Packet) { p.Payload = make([]byte, 1024) }), ""},
		{"limited sender to full queue pair", good(func(p *ib.Packet) { p.PKey = 0x7fff }), ""},
		{"multicast", multicast(nil), ""},
		{"beyond the port's MTU", good(func(p *ib.Packet) { p.Payload = make([]byte, 1025) }), DropMTU},
		{"other partition", good(func(p *ib.Packet) { p.PKey = 0x8002 }), DropPKey},
		{"invalid P_Key", good(func(p *ib.Packet) { p.PKey = 0x8000 }), DropPKey},
		{"limited to limited", good(func(p *ib.Packet) { p.PKey, p.DestQP = 1, 0x778 }), DropPKey},
		{"full to limited", good(func(p *ib.Packet) { p.PKey, p.DestQP = 0x8001, 0x778 }), ""},
		{"Q_Key", good(func(p *ib.Packet) { p.QKey++ }), DropQKey},
		{"multicast Q_Key", multicast(func(p *ib.Packet) { p.QKey++ }), DropQKey},
		{"no queue pair", good(func(p *ib.Packet) { p.DestQP = 0x779 }), DropNoQP},
		{"queue pair 0", good(func(p *ib.Packet) { p.DestQP = 0 }), DropQP0},
		{"other LID", good(func(p *ib.Packet) { p.DLID = 6 }), DropDLID},
		{"other GID", good(func(p *ib.Packet) { global(p); p.GRH.DGID[15] = 0x23 }), DropDGID},
		{"group nobody attached to", multicast(func(p *ib.Packet) { p.GRH.DGID[15]++ }), DropMCUnknown},
		{"own multicast", multicast(func(p *ib.Packet) { p.SLID = 5 }), DropLoopSelf},
		{"ICRC", flip(good(nil), 28, true), string(ib.FaultICRC)},
		{"cut off", good(nil)[:30], string(ib.FaultLRHLen)},
		{"RC opcode", good(func(p *ib.Packet) { p.OpCode = 4 }), string(ib.FaultBTHOpCode)},
		{"CNP", good(func(p *ib.Packet) { p.OpCode = ib.OpCNP }), string(ib.FaultCNP)},
		{"multicast LID, unicast queue pair", multicast(func(p *ib.Packet) { p.DestQP = testQPN }), string(ib.FaultMcastIncons)},
		{"GSI with wrong Q_Key", good(func(p *ib.Packet) { p.DestQP = 1 }), DropQKey},
		{"GSI in any partition", good(func(p *ib.Packet) { p.DestQP, p.QKey, p.PKey = 1, ib.QKeyGSI, 0x8002 }), ""},
		{"GSI in no partition", good(func(p *ib.Packet) { p.DestQP, p.QKey, p.PKey = 1, ib.QKeyGSI, 0x8003 }), DropPKey},
	}
}

func TestReceive(t *testing.T) {
	for _, c := range receiveCases() {
		t.Run(c.name, func(t *testing.T) {
			h, w := newWireHCA(t)
			recv := NewRecvQueue(4)
			q := mustQP(t, h, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
			mustQP(t, h, QPConfig{QPN: 0x778, QKey: testQKey, PKeyIndex: 1, Recv: recv})
			if err := q.AttachMulticast(testMGID); err != nil {
				t.Fatal(err)
			}
			w.feed(t, c.packet)
			s, want := h.Stats(), Counts{}
			if c.drop != "" {
				want[c.drop] = 1
			}
			if s.Packets != 1 || s.Received != 1 || !equalCounts(s.Drops, want) || (s.Delivered == 1) != (c.drop == "") {
				t.Errorf("stats %+v; want drop %q", s, c.drop)
			}
		})
	}
}

func TestReceivedFields(t *testing.T) {
	h, w := newWireHCA(t)
	recv := NewRecvQueue(4)
	q := mustQP(t, h, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
	q.AttachMulticast(testMGID)
	plain := good(func(p *ib.Packet) { p.Imm = 7 }) // without the opcode, the immediate is not sent
	full := multicast(func(p *ib.Packet) {
		p.OpCode, p.Imm, p.Solicited, p.FECN, p.SL = ib.OpUDSendOnlyImm, 0xfedcba98, true, true, 9
		p.GRH.TClass, p.GRH.FlowLabel, p.GRH.HopLimit = 0xff, 0xabcde, 3
	})
	w.feed(t, plain, full)
	got := make([]Received, 4)
	if n := recv.Poll(got); n != 2 {
		t.Fatalf("Poll = %d", n)
	}
	var grh [40]byte
	copy(grh[:], full[8:])
	for i, want := range []Received{
		{QPN: testQPN, SrcQP: 0x48, SLID: 9, Payload: []byte("Hello")},
		{
			QPN: testQPN, SrcQP: 0x48, SLID: 9, SL: 9, Imm: 0xfedcba98, HasImm: true, HasGRH: true, Solicited: true, FECN: true,
			GRH: grh, Payload: []byte("Hello"),
		},
	} {
		if fmt.Sprint(got[i]) != fmt.Sprint(want) {
			t.Errorf("message %d: %+v\nwant %+v", i, got[i], want)
		}
		if b := got[i].Buffer(); len(b) != 45 || !bytes.Equal(b[:40], want.GRH[:]) || string(b[40:]) != "Hello" {
			t.Errorf("message %d: buffer %x", i, b)
		}
	}
	if got[0].MGID() != (ib.GID{}) || got[1].MGID() != testMGID {
		t.Errorf("MGIDs %v, %v", got[0].MGID(), got[1].MGID())
	}
}

func TestNoBuffer(t *testing.T) {
	h, w := newWireHCA(t)
	recv := NewRecvQueue(2)
	mustQP(t, h, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
	w.feed(t, good(nil), good(nil), good(nil))
	recv.Poll(make([]Received, 1)) // one buffer is posted again
	w.feed(t, good(nil), good(nil))
	if s := h.Stats(); s.Delivered != 3 || !equalCounts(s.Drops, Counts{DropNoBuffer: 2}) {
		t.Errorf("stats %+v", s)
	}
}

func TestMulticastCopies(t *testing.T) {
	h, w := newWireHCA(t)
	a, b := NewRecvQueue(4), NewRecvQueue(1)
	qa := mustQP(t, h, QPConfig{QKey: testQKey, Recv: a})
	qb := mustQP(t, h, QPConfig{QKey: testQKey, Recv: b})
	for _, q := range []*QP{qa, qa, qb} { // twice is once
		if err := q.AttachMulticast(testMGID); err != nil {
			t.Fatal(err)
		}
	}
	if err := qa.AttachMulticast(mustGID("fe80::1")); err == nil {
		t.Error("attached to a unicast GID")
	}
	w.feed(t, multicast(nil), multicast(nil))
	if s := h.Stats(); s.Packets != 2 || s.Received != 4 || s.Delivered != 3 || s.Drops[DropNoBuffer] != 1 {
		t.Errorf("stats %+v", s)
	}
	qa.DetachMulticast(testMGID)
	qb.Destroy()
	if err := qb.AttachMulticast(testMGID); err != ErrClosed {
		t.Errorf("attach of a destroyed queue pair: %v", err)
	}
	w.feed(t, multicast(nil))
	if s := h.Stats(); s.Drops[DropMCUnknown] != 1 || len(h.groups) != 0 {
		t.Errorf("after detaching: %+v, %d groups", s, len(h.groups))
	}
}

func TestSend(t *testing.T) {
	grh := &ib.GRHFields{DGID: testMGID, TClass: 1, FlowLabel: 2, HopLimit: 3}
	for _, c := range []struct {
		name string
		send Send
		drop string
	}{
		{"unicast", Send{AH: AH{DLID: 7, SL: 2}, DestQP: 8, QKey: 9, Payload: []byte("x")}, ""},
		{"all", Send{
			AH: AH{DLID: 0xc000, GRH: grh}, DestQP: ib.QPMulticast, QKey: 9, Imm: 1, HasImm: true, Solicited: true, FECN: true,
		}, ""},
		{"largest", Send{AH: AH{DLID: 7}, DestQP: 8, Payload: make([]byte, 1024)}, ""},
		{"controlled Q_Key", Send{AH: AH{DLID: 7}, DestQP: 8, QKey: 0x80000009}, ""},
		{"too large", Send{AH: AH{DLID: 7}, DestQP: 8, Payload: make([]byte, 1025)}, DropMTU},
		{"no LID", Send{DestQP: 8}, DropAH},
		{"permissive LID", Send{AH: AH{DLID: 0xffff}, DestQP: 8}, DropAH},
		{"multicast without GRH", Send{AH: AH{DLID: 0xc000}, DestQP: ib.QPMulticast}, DropAH},
		{"multicast LID, unicast GID", Send{AH: AH{DLID: 0xc000, GRH: &ib.GRHFields{}}, DestQP: ib.QPMulticast}, DropAH},
		{"unicast LID, multicast GID", Send{AH: AH{DLID: 7, GRH: grh}, DestQP: 8}, DropAH},
		{"multicast to a queue pair", Send{AH: AH{DLID: 0xc000, GRH: grh}, DestQP: 8}, DropAH},
		{"unicast to all queue pairs", Send{AH: AH{DLID: 7}, DestQP: ib.QPMulticast}, DropAH},
		{"QPN of 25 bits", Send{AH: AH{DLID: 7}, DestQP: 1 << 24}, DropAH},
		{"queue pair 0", Send{AH: AH{DLID: 7}}, DropQP0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, w := newWireHCA(t)
			q := mustQP(t, h, QPConfig{QKey: testQKey, PKeyIndex: 2, Recv: NewRecvQueue(1)})
			if got := q.Send(&c.send); got != c.drop {
				t.Fatalf("Send = %q, want %q", got, c.drop)
			}
			s := h.Stats()
			if c.drop != "" {
				if s.Sent != 0 || !equalCounts(s.SendDrops, Counts{c.drop: 1}) {
					t.Errorf("stats %+v", s)
				}
				return
			}
			p, fault := ib.ParsePacket(<-w.sent)
			if fault != "" || s.Sent != 1 {
				t.Fatalf("fault %q, stats %+v", fault, s)
			}
			checkSent(t, q, &c.send, &p)
		})
	}
}

func checkSent(t *testing.T, q *QP, s *Send, p *ib.Packet) {
	qkey := s.QKey
	if qkey.IsControlled() {
		qkey = testQKey
	}
	if p.SLID != 5 || p.DLID != s.AH.DLID || p.SL != s.AH.SL || p.DestQP != s.DestQP || p.SrcQP != q.QPN() || p.QKey != qkey ||
		p.PKey != 0x8002 || p.Solicited != s.Solicited || p.FECN != s.FECN || !bytes.Equal(p.Payload, s.Payload) {
		t.Errorf("packet %+v\nof %+v", p, s)
	}
	if (p.OpCode == ib.OpUDSendOnlyImm) != s.HasImm || p.Imm != s.Imm || (p.GRH != nil) != (s.AH.GRH != nil) {
		t.Errorf("packet %+v\nof %+v", p, s)
	}
	if g := p.GRH; g != nil {
		if want := *s.AH.GRH; g.SGID != mustGID("fe80::22") || g.DGID != want.DGID || g.TClass != 1 || g.FlowLabel != 2 || g.HopLimit != 3 {
			t.Errorf("GRH %+v", g)
		}
	}
}

func TestPSN(t *testing.T) {
	h, w := newWireHCA(t)
	q := mustQP(t, h, QPConfig{QKey: 1, Recv: NewRecvQueue(1)})
	q.psn.Store(0xfffffe)
	for _, want := range []uint32{0xffffff, 0, 1} {
		q.Send(&Send{AH: AH{DLID: 7}, DestQP: 8})
		if p, _ := ib.ParsePacket(<-w.sent); p.PSN != want {
			t.Errorf("PSN %#x, want %#x", p.PSN, want)
		}
	}
	q.Destroy()
	if got := q.Send(&Send{AH: AH{DLID: 7}, DestQP: 8}); got != DropNoQP {
		t.Errorf("Send from a destroyed queue pair: %q", got)
	}
}

func TestQPN(t *testing.T) {
	h, _ := newWireHCA(t)
	recv := NewRecvQueue(1)
	h.nextQPN = 0xfffffd
	var got []ib.QPN
	for range 3 {
		q := mustQP(t, h, QPConfig{Recv: recv})
		got = append(got, q.QPN())
		q.Destroy()
	}
	if fmt.Sprint(got) != "[0xfffffe 0x000002 0x000003]" {
		t.Errorf("QPNs %v: 0, 1 and 0xffffff are reserved, and none is given again at once", got)
	}
	for _, c := range []QPConfig{{QPN: 1, Recv: recv}, {QPN: 0xffffff, Recv: recv}, {QPN: 1 << 24, Recv: recv}, {}, {PKeyIndex: 3, Recv: recv}} {
		if _, err := h.CreateQP(c); err == nil {
			t.Errorf("CreateQP(%+v) did not fail", c)
		}
	}
	mustQP(t, h, QPConfig{QPN: 9, Recv: recv})
	if _, err := h.CreateQP(QPConfig{QPN: 9, Recv: recv}); err == nil {
		t.Error("two queue pairs have one number")
	}
}

func TestMADs(t *testing.T) {
	h, w := newWireHCA(t)
	got := make(chan MADAddress, 1)
	h.handleMAD(ib.ClassCM, func(from MADAddress, mad []byte) { got <- from })
	mad := make([]byte, ib.MADLen)
	mad[0], mad[1] = 1, ib.ClassCM
	gsi := func(payload []byte) []byte {
		return good(func(p *ib.Packet) {
			p.DestQP, p.QKey, p.SrcQP, p.SL, p.Payload = 1, ib.QKeyGSI, 1, 4, payload
			p.GRH = &ib.GRHFields{SGID: mustGID("fe80::9"), DGID: mustGID("fe80::22")}
		})
	}
	other := bytes.Clone(mad)
	other[1] = 0x42
	w.feed(t, gsi(mad), gsi(mad[:255]), gsi(other))
	if from := <-got; from.LID != 9 || from.SL != 4 || from.GRH == nil || from.GRH.SGID != mustGID("fe80::9") {
		t.Errorf("from %+v", from)
	}
	waitFor(t, "dropped MADs", func() bool { return h.gsi.drops.counts().Sum() == 2 })
	if d := h.gsi.drops.counts(); !equalCounts(d, Counts{DropMADLen: 1, DropMADUnserved: 1}) {
		t.Errorf("drops %v", d)
	}
	if s := h.Stats(); s.ToQP1 != 3 {
		t.Errorf("stats %+v", s)
	}
	if got := h.SendMAD(MADAddress{LID: 9}, mad[:200]); got != DropMADLen {
		t.Errorf("SendMAD of 200 bytes: %q", got)
	}
	if got := h.SendMAD(MADAddress{LID: 9, SL: 4}, mad); got != "" {
		t.Errorf("SendMAD: %q", got)
	}
	if p, fault := ib.ParsePacket(<-w.sent); fault != "" || p.DestQP != 1 || p.SrcQP != 1 || p.QKey != ib.QKeyGSI || p.SL != 4 {
		t.Errorf("%q %+v", fault, p)
	}
}
