// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"sync"
	"sync/atomic"

	"causeway/ibside/ib"
)

// Switch forwards packets by destination LID. It has no goroutine: the sender's call checks a packet, looks up the destination and
// queues the packet, without waiting.
type Switch struct {
	lmc   uint8 // of all ports
	mu    sync.RWMutex
	ports map[ib.LID]*switchPort // by base LID
	mlids map[ib.LID]mlidEntry

	stats   switchCounters
	drops   tally
	capture *capture // nil: none
}

type switchCounters struct{ in, copies, out atomic.Uint64 }

// mlidEntry is one multicast forwarding entry.
type mlidEntry struct {
	receivers []*switchPort
	members   map[ib.LID]bool // including those that only send
}

// SwitchStats counts packets. When no packet is in transit, In + Copies = Out + Drops.Sum().
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
	fabric *Fabric
	info   PortInfo
	queue  *queue
	closed atomic.Bool
}

func newSwitch(c *capture, lmc uint8) *Switch {
	return &Switch{lmc: lmc, ports: map[ib.LID]*switchPort{}, mlids: map[ib.LID]mlidEntry{}, capture: c}
}

// Stats returns the switch's counters.
func (s *Switch) Stats() SwitchStats {
	return SwitchStats{s.stats.in.Load(), s.stats.copies.Load(), s.stats.out.Load(), s.drops.counts()}
}

// forward forwards a packet from port p.
func (s *Switch) forward(p *switchPort, packet []byte) {
	s.stats.in.Add(1)
	lrh, fault := checkLink(packet)
	if fault != ib.FaultNone {
		s.drops.fault(fault)
		return
	}
	if lrh.SLID().Base(s.lmc) != p.info.LID {
		s.drops.add(DropSLID)
		return
	}
	if s.capture != nil {
		s.capture.put(packet)
	}
	if lrh.DLID().IsMulticast() {
		s.multicast(p, lrh.DLID(), packet)
		return
	}
	s.mu.RLock()
	to := s.ports[lrh.DLID().Base(s.lmc)]
	s.mu.RUnlock()
	if to == nil {
		s.drops.add(DropNoRoute)
		return
	}
	s.stats.out.Add(1)
	to.queue.put(packet)
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

func (s *Switch) multicast(p *switchPort, mlid ib.LID, packet []byte) {
	s.mu.RLock()
	entry, known := s.mlids[mlid]
	s.mu.RUnlock()
	switch {
	case !known:
		s.drops.add(DropNoRoute)
		return
	case !entry.members[p.info.LID]:
		s.drops.add(DropNotMember)
		return
	}
	sent := uint64(0)
	for _, to := range entry.receivers {
		if to != p {
			to.queue.put(packet)
			sent++
		}
	}
	if sent == 0 {
		s.drops.add(DropNoMember)
		return
	}
	s.stats.copies.Add(sent - 1)
	s.stats.out.Add(sent)
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

func (p *switchPort) Send(packet []byte) bool {
	if p.closed.Load() {
		return false
	}
	p.fabric.sw.forward(p, packet)
	return true
}

func (p *switchPort) Recv(packets [][]byte) (int, error) {
	n := p.queue.take(packets)
	if n == 0 && len(packets) > 0 {
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
