// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/sma"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// Port is a port of a switch. Number 0 has no link.
type Port struct {
	name   string
	number uint8
	sw     *Switch
	link   link.Link

	data       chan []byte
	management chan []byte // VL 15 has buffers of its own, and goes first
	waiting    atomic.Int64
	closed     chan struct{}
	loss       atomic.Uint32 // percent of the data that comes and goes by the port
	counters

	sma.Port            // under the switch's lock
	pulled   bool       // under the switch's lock
	zero     portTotals // of PortCounters, under the switch's lock
}

// present reports whether this end of the cable is in. The caller holds the switch's lock.
func (p *Port) present() bool { return !p.pulled && p.Info.Physical != smp.PhysicalDisabled }

// put appends a packet to a queue of the port. What has no room is dropped.
func (p *Port) put(packet []byte, queue chan []byte) {
	p.waiting.Add(1)
	select {
	case queue <- packet:
	default:
		p.waiting.Add(-1)
		p.drop(dropQueue)
	}
}

// write takes packets from the queues to the link.
func (p *Port) write() {
	for {
		select {
		case packet := <-p.management:
			p.send(packet)
			continue
		default:
		}
		select {
		case packet := <-p.management:
			p.send(packet)
		case packet := <-p.data:
			if p.active() {
				p.send(packet)
			} else { // it has been down since, if only for a moment
				p.drop(dropLink)
				p.waiting.Add(-1)
			}
		case <-p.closed:
			p.discard()
			return
		}
	}
}

// loses reports whether the next packet of data is to be lost.
func (p *Port) loses() bool { return rand.Uint32N(100) < p.loss.Load() }

func (p *Port) active() bool {
	p.sw.mu.RLock()
	defer p.sw.mu.RUnlock()
	return p.Info.State == smp.Active
}

func (p *Port) send(packet []byte) {
	err := p.link.Send(packet)
	switch {
	case err == nil:
		p.countOut(packet)
	case errors.Is(err, link.ErrLifetime):
		p.drop(dropLifetime)
	default:
		p.drop(dropLink)
	}
	p.waiting.Add(-1)
}

// discard drops what the queues hold at the end.
func (p *Port) discard() {
	for {
		select {
		case <-p.management:
		case <-p.data:
		default:
			return
		}
		p.drop(dropLink)
		p.waiting.Add(-1)
	}
}

// Receive takes a packet from the link.
func (p *Port) Receive(packet []byte) {
	p.countIn(packet)
	lrh, why := checkLink(packet)
	switch {
	case why != kept:
		p.drop(why)
	case lrh.VL() == ib.VLSubnetManagement:
		p.sw.relaySubnet(p, packet)
	case p.loses():
		p.drop(dropAsked)
	default:
		p.sw.relayData(p, lrh, packet)
	}
}

// checkLink checks what concerns the link (§7.8, §18.2.5); the receiver checks the transport.
func checkLink(packet []byte) (ib.LRH, drop) {
	lrh, ok := ib.AsLRH(packet)
	switch {
	case !ok || lrh.LVer() != 0:
		return nil, dropHeader
	case lrh.LNH() != ib.LNHLocal && lrh.LNH() != ib.LNHGlobal:
		return nil, dropRaw
	case len(packet) < shortest(lrh) || len(packet) > ib.UDMaxLen || len(packet) != 4*lrh.PktLenWords()+ib.VCRCLen:
		return nil, dropLength
	}
	n := len(packet) - ib.VCRCLen
	if got, _ := ib.VCRCField(packet[n:]); got != ib.VCRC(packet[:n]) {
		return nil, dropVCRC
	}
	if lrh.VL() != 0 && lrh.VL() != ib.VLSubnetManagement {
		return nil, dropVL
	}
	return lrh, kept
}

// shortest is the length of a datagram without payload.
func shortest(lrh ib.LRH) int {
	if lrh.LNH() == ib.LNHGlobal {
		return ib.MinLen + ib.DETHLen + ib.GRHLen
	}
	return ib.MinLen + ib.DETHLen
}

// LinkChanged follows the link. A subnet manager hears of it by a trap.
func (p *Port) LinkChanged(up bool) {
	s := p.sw
	s.mu.Lock()
	before := p.Info.State
	changed := p.Port.LinkChanged(up)
	if changed {
		s.info.PortStateChange = true
		s.raise()
	}
	s.mu.Unlock()
	if changed && !up {
		p.linkDowned.Add(1)
	}
	if changed {
		s.config.Event(fmt.Sprintf("port %d %s %v, was %v", p.number, p.name, map[bool]smp.State{true: smp.Init, false: smp.Down}[up], before))
	}
}
