// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"testing"

	"causeway/ibside/ib"
)

// rawPorts attaches ports that the test reads itself: LIDs 2, 3, ...
func rawPorts(t testing.TB, f *Fabric, n, queue int) []Port {
	t.Helper()
	ports := make([]Port, n)
	for i := range ports {
		var err error
		if ports[i], err = f.Attach(PortConfig{Name: "raw", GUID: ib.GUID(0x100 + i), Queue: queue}); err != nil {
			t.Fatal(err)
		}
	}
	return ports
}

// drain takes all packets that wait for a port.
func drain(p Port) int {
	total, buf := 0, make([][]byte, 64)
	q := p.(*switchPort).queue
	for q.stats().Waiting > 0 {
		n, _ := p.Recv(buf)
		total += n
	}
	q.mu.Lock()
	q.done = q.out
	q.mu.Unlock()
	return total
}

// switchCase is a packet of the port with LID 2, and the reason for which the switch drops it.
type switchCase struct {
	name   string
	packet []byte
	drop   string
}

func switchCases() []switchCase {
	fixed := func(b []byte) []byte {
		n := len(b) - ib.VCRCLen
		ib.PutVCRC(b[n:], ib.VCRC(b[:n]))
		return b
	}
	from2 := func(change func(p *ib.Packet)) []byte {
		return good(func(p *ib.Packet) {
			p.SLID, p.DLID = 2, 3
			if change != nil {
				change(p)
			}
		})
	}
	edit := func(at int, v byte) []byte {
		b := from2(nil)
		b[at] = v
		return fixed(b)
	}
	return []switchCase{
		{"good", from2(nil), ""},
		{"to itself", from2(func(p *ib.Packet) { p.DLID = 2 }), ""},
		{"nothing", nil, "lrh_hdr"},
		{"half an LRH", from2(nil)[:7], "lrh_hdr"},
		{"LVer", edit(0, 1), "lrh_hdr"},
		{"raw", edit(1, 0), "ib_raw"},
		{"short", fixed(from2(nil)[:22]), "lrh_len"},
		{"PktLen", edit(5, 200), "lrh_len"},
		{"VCRC", append(from2(nil)[:40], 0, 0), "vcrc"},
		{"subnet management", edit(0, 0xf0), DropQP0},
		{"spoofed", from2(func(p *ib.Packet) { p.SLID = 3 }), DropSLID},
		{"no such port", from2(func(p *ib.Packet) { p.DLID = 99 }), DropNoRoute},
		{"LID 0", from2(func(p *ib.Packet) { p.DLID = 0 }), DropNoRoute},
		{"no such group", from2(func(p *ib.Packet) { p.DLID = 0xc009 }), DropNoRoute},
		{"not a member", from2(func(p *ib.Packet) { p.DLID = 0xc001 }), DropNotMember},
		{"nobody else in the group", from2(func(p *ib.Packet) { p.DLID = 0xc002 }), DropNoMember},
		{"the switch does not check the ICRC", fixed(append(from2(nil)[:38], 1, 2, 3, 4)), ""},
	}
}

func TestSwitchDrops(t *testing.T) {
	for _, c := range switchCases() {
		t.Run(c.name, func(t *testing.T) {
			f := newFabric(t, Config{})
			ports := rawPorts(t, f, 2, 0)
			f.sw.setMLID(0xc001, map[ib.LID]bool{3: true})
			f.sw.setMLID(0xc002, map[ib.LID]bool{2: true, 1: false})
			if ports[0].Send(c.packet) != 1 {
				t.Fatal("Send on an open port")
			}
			want := Counts{}
			if c.drop != "" {
				want[c.drop] = 1
			}
			if s, _ := f.Stats(); !equalCounts(s.Drops, want) {
				t.Errorf("drops %v, want %v", s.Drops, want)
			}
			drain(ports[0])
			drain(ports[1])
		})
	}
}

// TestStatsOfOneMoment reads the counters while packets are sent: none is counted by half.
func TestStatsOfOneMoment(t *testing.T) {
	f := newFabric(t, Config{})
	ports := rawPorts(t, f, 2, 16)
	f.sw.setMLID(0xc001, map[ib.LID]bool{1: true, 2: true, 3: true})
	burst := [][]byte{
		multicast(func(p *ib.Packet) { p.SLID, p.DLID = 2, 0xc001 }),
		good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 3 }),
		good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 99 }),
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 5000 {
			ports[0].Send(burst...)
			drain(ports[1])
		}
	}()
	for {
		checkConserved(t, f)
		select {
		case <-sent:
			return
		default:
		}
	}
}

func TestSlowPort(t *testing.T) {
	f := newFabric(t, Config{})
	ports := rawPorts(t, f, 3, 10)
	f.sw.setMLID(0xc001, map[ib.LID]bool{2: true, 3: true, 4: true})
	b := multicast(func(p *ib.Packet) { p.SLID, p.DLID = 2, 0xc001 })
	quick := 0
	for range 25 {
		ports[0].Send(b)
		quick += drain(ports[2]) // LID 4 reads, LID 3 does not
	}
	if slow := drain(ports[1]); quick != 25 || slow != 10 {
		t.Errorf("quick port %d of 25, slow port %d of 10", quick, slow)
	}
	s, all := f.Stats()
	if s.In != 25 || s.Copies != 25 || s.Out != 50 || !equalCounts(all.Drops, Counts{DropQueueFull: 15}) {
		t.Errorf("switch %+v, ports %+v", s, all)
	}
	if drain(ports[0]) != 0 {
		t.Error("the sender got its own multicast")
	}
}

func TestClosedPortLosesItsQueue(t *testing.T) {
	f := newFabric(t, Config{})
	ports := rawPorts(t, f, 2, 10)
	b := good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 3 })
	ports[0].Send(b)
	ports[0].Send(b)
	ports[1].Close()
	ports[0].Send(b)
	s, all := f.Stats()
	if all.Drops[DropPortClosed] != 2 || s.Drops[DropNoRoute] != 1 {
		t.Errorf("switch %+v, ports %+v", s, all)
	}
}

// TestMulticastNeverReturns joins two adapters to a group and lets both send.
func TestMulticastNeverReturns(t *testing.T) {
	f := newFabric(t, Config{})
	var recvs [2]*RecvQueue
	for i := range recvs {
		h := attachHCA(t, f, PortConfig{Name: "m", GUID: ib.GUID(0x30 + i)})
		recvs[i] = NewRecvQueue(8)
		rec, err := NewSAClient(h).Join(context.Background(), ib.MCMemberFields{
			MGID: testMGID, QKey: testQKey, PKey: 0xffff, JoinState: ib.JoinFull,
		})
		if err != nil {
			t.Fatal(err)
		}
		q := mustQP(t, h, QPConfig{QKey: rec.QKey, Recv: recvs[i]})
		q.AttachMulticast(testMGID)
		defer q.Send(&Send{
			AH: AH{DLID: rec.MLID, GRH: &ib.GRHFields{DGID: rec.MGID}}, DestQP: ib.QPMulticast, QKey: rec.QKey, Imm: uint32(i), HasImm: true,
		})
	}
	t.Cleanup(func() {
		waitFor(t, "quiet subnet", f.Quiet)
		got := make([]Received, 8)
		for i, r := range recvs {
			if n := r.Poll(got); n != 1 || got[0].Imm == uint32(i) {
				t.Errorf("adapter %d got %d messages, the first of %d; want the other's", i, n, got[0].Imm)
			}
		}
	})
}
