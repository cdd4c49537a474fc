// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"sync"
	"sync/atomic"

	"causeway/ibside/ib"
)

// Switch forwards packets by destination LID. It has no goroutine: the sender's call checks packets, looks up the
// destination and queues them, without waiting. Packets of a burst that have one destination are queued together.
type Switch struct {
	lmc   uint8 // of all ports
	mu    sync.RWMutex
	ports map[ib.LID]*switchPort // by base LID
	mlids map[ib.LID]mlidEntry

	stats   switchCounters
	drops   tally
	capture *capture // nil: none

	lose   atomic.Uint64                       // share of packets, of 1<<32
	parted atomic.Pointer[map[[2]ib.GUID]bool] // see Part
}

type switchCounters struct{ in, copies, out atomic.Uint64 }

// mlidEntry is one multicast forwarding entry.
type mlidEntry struct {
	receivers []*switchPort
	members   map[ib.LID]bool // including those that only send
}

// SwitchStats counts packets. In + Copies = Out + Drops.Sum(), always.
type SwitchStats struct {
	In     uint64 // from ports
	Copies uint64 // of multicast packets, beyond the first
	Out    uint64 // put on a port's queue, which may still drop them: see PortStats
	Drops  Counts
}

// PortStats counts packets to a port. Queued = Taken + Waiting + Drops.Sum(), always.
type PortStats struct {
	Queued, Taken, Waiting uint64
	Drops                  Counts
}

// switchPort is a port of this process, or the local end of one in another process.
type switchPort struct {
	fabric   *Fabric
	info     PortInfo
	queue    *queue
	closed   atomic.Bool
	cut      atomic.Bool // see Cut
	stalled  atomic.Bool // see Stall
	withheld atomic.Bool // see Withhold
}

func newSwitch(c *capture, lmc uint8) *Switch {
	return &Switch{lmc: lmc, ports: map[ib.LID]*switchPort{}, mlids: map[ib.LID]mlidEntry{}, capture: c}
}

// counts returns the switch's counters. The caller has locked it for writing, so that no packet is half-way.
func (s *Switch) counts() SwitchStats {
	return SwitchStats{s.stats.in.Load(), s.stats.copies.Load(), s.stats.out.Load(), s.drops.counts()}
}

// forward forwards packets from port p.
func (s *Switch) forward(p *switchPort, packets [][]byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.stats.in.Add(uint64(len(packets)))
	packets = s.survivors(p, packets)
	for len(packets) > 0 {
		run, rest := s.run(p, packets)
		if len(run) > 0 {
			s.deliver(p, run)
		}
		packets = rest
	}
}

// run cuts off the first packets that are good and have one destination. A bad one after them is dropped.
func (s *Switch) run(p *switchPort, packets [][]byte) (run, rest [][]byte) {
	var to ib.LID
	for i, packet := range packets {
		if lrh, ok := ib.AsLRH(packet); ok && i > 0 && lrh.DLID() != to {
			return packets[:i], packets[i:]
		}
		lrh, fault := checkLink(packet)
		switch {
		case fault != ib.FaultNone:
			s.drops.fault(fault)
			return packets[:i], packets[i+1:]
		case lrh.SLID().Base(s.lmc) != p.info.LID:
			s.drops.add(DropSLID)
			return packets[:i], packets[i+1:]
		}
		to = lrh.DLID()
	}
	return packets, nil
}

// deliver queues packets of one destination. The caller holds the lock.
func (s *Switch) deliver(p *switchPort, packets [][]byte) {
	if s.capture != nil {
		for _, packet := range packets {
			s.capture.put(packet)
		}
	}
	lrh, _ := ib.AsLRH(packets[0])
	if lrh.DLID().IsMulticast() {
		s.multicast(p, lrh.DLID(), packets)
		return
	}
	to := s.ports[lrh.DLID().Base(s.lmc)]
	if to == nil {
		s.drops.addN(DropNoRoute, uint64(len(packets)))
		return
	}
	s.stats.out.Add(s.put(p, to, packets))
}

// checkLink checks what a switch checks (IBTA vol 1 §7.8, §18.2.5): header, length and VCRC of the link. The receiver
// checks the transport.
func checkLink(packet []byte) (ib.LRH, ib.Fault) {
	lrh, ok := ib.AsLRH(packet)
	switch {
	case !ok || lrh.LVer() != 0:
		return nil, ib.FaultLRHHdr
	case lrh.LNH() != ib.LNHLocal && lrh.LNH() != ib.LNHGlobal:
		return nil, ib.FaultIBRaw
	case len(packet) < ib.MinLen || len(packet) > ib.UDMaxLen || len(packet) != 4*lrh.PktLenWords()+ib.VCRCLen:
		return nil, ib.FaultLRHLen
	case lrh.VL() == ib.VLSubnetManagement: // Attach and Dial assign LIDs; there are no SMPs
		return nil, DropQP0
	}
	n := len(packet) - ib.VCRCLen
	if got, _ := ib.VCRCField(packet[n:]); got != ib.VCRC(packet[:n]) {
		return nil, ib.FaultVCRC
	}
	return lrh, ib.FaultNone
}

// multicast queues packets of one group for each member but the sender. The caller holds the lock.
func (s *Switch) multicast(p *switchPort, mlid ib.LID, packets [][]byte) {
	entry, known := s.mlids[mlid]
	n := uint64(len(packets))
	switch {
	case !known:
		s.drops.addN(DropNoRoute, n)
		return
	case !entry.members[p.info.LID]:
		s.drops.addN(DropNotMember, n)
		return
	}
	receivers, out := uint64(0), uint64(0)
	for _, to := range entry.receivers {
		if to != p {
			out += s.put(p, to, packets)
			receivers++
		}
	}
	if receivers == 0 {
		s.drops.addN(DropNoMember, n)
		return
	}
	s.stats.copies.Add((receivers - 1) * n)
	s.stats.out.Add(out)
}

// setMLID replaces the forwarding entry of a multicast LID: true in members means that the port receives. No members
// removes it. LIDs without a port are ignored.
func (s *Switch) setMLID(mlid ib.LID, members map[ib.LID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(members) == 0 {
		delete(s.mlids, mlid)
		return
	}
	e := mlidEntry{members: map[ib.LID]bool{}}
	for lid, receives := range members {
		e.members[lid] = true
		if p := s.ports[lid]; p != nil && receives {
			e.receivers = append(e.receivers, p)
		}
	}
	slices.SortFunc(e.receivers, func(a, b *switchPort) int { return int(a.info.LID) - int(b.info.LID) })
	s.mlids[mlid] = e
}

func (s *Switch) add(p *switchPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports[p.info.LID] = p
}

func (s *Switch) remove(p *switchPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ports, p.info.LID)
}

func (p *switchPort) Info() PortInfo {
	i := p.info
	i.PKeys = slices.Clone(i.PKeys)
	return i
}

func (p *switchPort) Send(packets ...[]byte) int {
	if p.closed.Load() {
		return 0
	}
	p.fabric.sw.forward(p, packets)
	return len(packets)
}

// Sent implements Port.
func (p *switchPort) Sent() bool { return true }

// Drained implements Port.
func (p *switchPort) Drained() bool { return p.queue.isDone() }

func (p *switchPort) Recv(packets [][]byte) (int, error) {
	n := p.queue.take(packets)
	if n == 0 && p.queue.isClosed() {
		return 0, ErrClosed
	}
	return n, nil
}

func (p *switchPort) Close() error {
	if !p.closed.Swap(true) {
		p.fabric.detach(p)
	}
	return nil
}
