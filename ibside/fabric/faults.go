// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// More reasons for the switch to drop a packet.
const (
	DropLinkDown = "link_down" // the sender's link or the receiver's is cut
	DropInjected = "injected"  // see Lose and Part
)

// Cut cuts the link of the port with a GUID, or mends it. The port stays on the subnet, as one does until the subnet
// manager sweeps: it keeps its LID and its groups.
func (f *Fabric) Cut(guid ib.GUID, cut bool) error {
	p, err := f.portOf(guid)
	if err == nil && p.cut.Swap(cut) != cut {
		p.queue.poke() // the adapter, or the process that has it, gets to know
	}
	return err
}

// Stall has the switch take nothing from the port with a GUID, as one that gives a link no credits, or has it do so again. What
// the port sends waits in its socket, so it must be another process's.
func (f *Fabric) Stall(guid ib.GUID, on bool) error {
	p, err := f.portOf(guid)
	if err == nil {
		p.stalled.Store(on)
	}
	return err
}

// Withhold has the switch send nothing to the port with a GUID, as to one that gives no credits, or has it do so again. What is
// sent to the port waits in its queue. It must be another process's.
func (f *Fabric) Withhold(guid ib.GUID, on bool) error {
	p, err := f.portOf(guid)
	if err == nil {
		p.withheld.Store(on)
	}
	return err
}

// awaitCredits waits while the port is stalled, or what is sent to it withheld, and the subnet has not begun to end.
func (p *switchPort) awaitCredits(none *atomic.Bool) {
	for none.Load() && !p.fabric.isClosed() {
		time.Sleep(100 * time.Microsecond)
	}
}

func (f *Fabric) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *Fabric) portOf(guid ib.GUID) (*switchPort, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.ports[f.guids[guid]]
	if p == nil {
		return nil, fmt.Errorf("fabric: no port has GUID %v", guid)
	}
	return p, nil
}

// Lose makes the switch lose a share of all packets, 0 to 1, by chance.
func (f *Fabric) Lose(share float64) { f.sw.lose.Store(uint64(share * (1 << 32))) }

// Part makes the switch lose all that one port sends to another, or lose no more of it than else. GUID 0 is whichever port:
// Part(x, 0, true) has nobody hear x, and Part(0, x, true) has x hear nobody, while all links stay up.
func (f *Fabric) Part(from, to ib.GUID, part bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parted := map[[2]ib.GUID]bool{}
	if before := f.sw.parted.Load(); before != nil {
		maps.Copy(parted, *before)
	}
	parted[[2]ib.GUID{from, to}] = part
	maps.DeleteFunc(parted, func(_ [2]ib.GUID, is bool) bool { return !is })
	f.sw.parted.Store(&parted)
}

// isParted reports whether what one port sends to another is lost: see Part.
func (s *Switch) isParted(from, to ib.GUID) bool {
	parted := s.parted.Load()
	if parted == nil || len(*parted) == 0 {
		return false
	}
	return (*parted)[[2]ib.GUID{from, to}] || (*parted)[[2]ib.GUID{from, 0}] || (*parted)[[2]ib.GUID{0, to}]
}

// Down implements Port.
func (p *switchPort) Down() string {
	if p.cut.Load() {
		return linkCut(p.info.Name)
	}
	return ""
}

func linkCut(name string) string { return "the link of port " + name + " is cut: mend it" }

// survivors returns the packets of a burst from p that are not lost by a fault.
func (s *Switch) survivors(p *switchPort, packets [][]byte) [][]byte {
	if p.cut.Load() {
		s.drops.addN(DropLinkDown, uint64(len(packets)))
		return nil
	}
	lose := s.lose.Load()
	if lose == 0 {
		return packets
	}
	var kept [][]byte
	for _, b := range packets {
		if uint64(rand.Uint32()) >= lose {
			kept = append(kept, b)
		}
	}
	s.drops.addN(DropInjected, uint64(len(packets)-len(kept)))
	return kept
}

// put queues packets for a port. It returns how many: none when its link is cut, or the ports are parted.
func (s *Switch) put(from, to *switchPort, packets [][]byte) uint64 {
	n := uint64(len(packets))
	switch {
	case to.cut.Load():
		s.drops.addN(DropLinkDown, n)
		return 0
	case s.isParted(from.info.GUID, to.info.GUID):
		s.drops.addN(DropInjected, n)
		return 0
	}
	to.queue.put(packets)
	return n
}
