// SPDX-License-Identifier: Apache-2.0

// Package lacp decides by the Link Aggregation Control Protocol (IEEE 802.1AX-2008, clause 5) which ports of a bond carry
// frames. It has no clock, no port and no goroutine: its caller tells it of links, frames and the time.
//
//	LACPDU ─▶ Receive ─▶ receive machine ─┐
//	carrier ▶ SetLink ─▶                  ├▶ selection ─▶ mux machine ─▶ Ports: collecting, distributing
//	clock ──▶ Tick ────▶ timeouts ────────┘                   └────────▶ LACPDUs to send
//
// Each port wants the short timeout: an end that has fallen silent is known after three seconds. Ports are attached as
// soon as they are selected, without the standard's wait of two seconds for others (§5.4.15, WAITING): a port that joins
// later costs those before it nothing.
package lacp

import (
	"slices"
	"time"
)

// The timers of §5.4.4.
const (
	fastPeriodic = time.Second
	slowPeriodic = 30 * time.Second
	shortTimeout = 3 * time.Second

	// mostPDUs are sent in a fastPeriodic (§5.4.16).
	mostPDUs = 3
)

// Key is that of the bridge's ports: it has one aggregator.
const Key = 1

// A Receiving is the state of a port's receive machine (§5.4.12).
type Receiving string

// Its states.
const (
	PortDisabled Receiving = "down"      // without a link
	WasCurrent   Receiving = "expired"   // a LACPDU is overdue
	NoPartner    Receiving = "defaulted" // no LACPDUs come
	Current      Receiving = "current"
)

// A Port is a port of the bond, as it is now.
type Port struct {
	Receiving    Receiving
	Selected     bool // by the aggregator
	Individual   bool // carries frames without LACP at the other end
	Actor        End
	Partner      End  // as its last LACPDU has it
	Collecting   bool // frames are to be received
	Distributing bool

	Received, Sent, Invalid uint64 // frames: LACPDUs and markers; others

	waitUntil time.Time // the receive machine's current_while
	sendAt    time.Time // the next LACPDU is due
	sent      []time.Time
	due       bool // a LACPDU is to be sent as soon as it may (need to transmit)
}

// A Bond is the aggregator and its ports.
type Bond struct {
	ports []Port
	mac   [6]byte
	send  func(port int, frame []byte)
	in    End // the aggregator at the other end whose ports are in use; zero: none
}

// New makes a bond of so many ports of a station, without links. send is called from the other methods for each frame that
// a port is to send.
func New(system [6]byte, ports int, send func(port int, frame []byte)) *Bond {
	b := &Bond{ports: make([]Port, ports), mac: system, send: send}
	for i := range b.ports {
		b.ports[i] = Port{Receiving: PortDisabled, Actor: End{
			SystemPriority: 0xffff, System: system, Key: Key, PortPriority: 0xff, Port: uint16(i + 1), // numbers begin with 1 (§5.3.4)
			State: Activity | Timeout | Aggregation | Defaulted,
		}}
	}
	return b
}

// Ports returns the ports as they are.
func (b *Bond) Ports() []Port { return slices.Clone(b.ports) }

// SetLink tells that a port has a link, or has it no more.
func (b *Bond) SetLink(now time.Time, port int, up bool) {
	p := &b.ports[port]
	switch {
	case up == (p.Receiving != PortDisabled):
		return
	case up:
		p.expire(now)
	default:
		p.Receiving = PortDisabled
		p.Partner.State &^= Synchronization
	}
	b.run(now)
}

// Receive takes a frame of a slow protocol that came to a port.
func (b *Bond) Receive(now time.Time, port int, frame []byte) {
	p := &b.ports[port]
	if answer := markerResponse(frame, b.mac); answer != nil {
		p.Received++
		p.Sent++
		b.send(port, answer)
		return
	}
	pdu, ok := Parse(frame)
	if !ok || pdu.Actor.System == b.mac { // its own, of a loop
		p.Invalid++
		return
	}
	p.Received++
	if p.Receiving == PortDisabled { // its link is not told of yet
		return
	}
	p.record(now, &pdu)
	b.run(now)
}

// record takes what the other end says (§5.4.9, recordPDU and update_NTT).
func (p *Port) record(now time.Time, pdu *PDU) {
	knowsUs := pdu.Partner.samePort(&p.Actor)
	p.Partner = pdu.Actor
	if !knowsUs && pdu.Actor.State&Aggregation != 0 {
		p.Partner.State &^= Synchronization // it speaks of another than us
	}
	const told = Activity | Timeout | Synchronization | Aggregation
	if !knowsUs || pdu.Partner.State&told != p.Actor.State&told {
		p.due = true
	}
	p.Receiving, p.waitUntil = Current, now.Add(shortTimeout)
	p.Actor.State &^= Defaulted | Expired
}

// expire has a port wait for LACPDUs: its link has come, or none came for too long.
func (p *Port) expire(now time.Time) {
	p.Receiving, p.waitUntil = WasCurrent, now.Add(shortTimeout)
	p.Partner.State = p.Partner.State&^Synchronization | Timeout
	p.Actor.State |= Expired
	p.due = true
}

// Tick does what is due. The next call is to be at the time that it returns, or at that of the next event.
func (b *Bond) Tick(now time.Time) (next time.Time) {
	for i := range b.ports {
		p := &b.ports[i]
		if p.Receiving == PortDisabled || p.Receiving == NoPartner || now.Before(p.waitUntil) {
			continue
		}
		if p.Receiving == Current {
			p.expire(now)
			continue
		}
		p.Receiving, p.due = NoPartner, true
		p.Partner = End{}
		p.Actor.State = p.Actor.State&^Expired | Defaulted
	}
	b.run(now)
	next = now.Add(fastPeriodic)
	for i := range b.ports {
		if t := b.ports[i].next(now); t.Before(next) {
			next = t
		}
	}
	return next
}

// next returns when something is due at a port.
func (p *Port) next(now time.Time) time.Time {
	if p.Receiving == PortDisabled {
		return now.Add(fastPeriodic)
	}
	t := p.sendAt
	if p.due {
		t = p.mayBeSent(now)
	}
	if p.Receiving != NoPartner && p.waitUntil.Before(t) {
		t = p.waitUntil
	}
	return t
}

// run has the machines that follow take what has changed.
func (b *Bond) run(now time.Time) {
	b.selectPorts()
	for i := range b.ports {
		b.ports[i].mux()
	}
	for i := range b.ports {
		b.transmit(now, i)
	}
}

// selectPorts chooses the aggregator at the other end (§5.4.14): the one in use as long as it has a port that could be
// used, then the one with most of them. Ports that lead to another stay out: their frames would come twice, or never. Where
// no port has a partner, the first carries frames without LACP, as with the kernel's driver.
func (b *Bond) selectPorts() {
	count := map[End]int{}
	for i := range b.ports {
		if p := &b.ports[i]; p.Receiving == Current {
			count[p.Partner.aggregator()]++
		}
	}
	if count[b.in] == 0 && len(count) > 0 {
		most := 0
		for i := range b.ports { // in order, so that of several the first port's is taken
			if p := &b.ports[i]; p.Receiving == Current && count[p.Partner.aggregator()] > most {
				b.in, most = p.Partner.aggregator(), count[p.Partner.aggregator()]
			}
		}
	}
	alone := len(count) == 0
	taken := false
	for i := range b.ports {
		p := &b.ports[i]
		aggregates := p.Partner.State&Aggregation != 0 || count[b.in] == 1
		p.Selected = p.Receiving == Current && p.Partner.aggregator() == b.in && aggregates
		p.Individual = alone && !taken && p.Receiving == NoPartner
		taken = taken || p.Individual
	}
}

// mux moves a port as far as the other end is (§5.4.15, independent control). Frames are received before that and for
// longer: from when the port is selected, because an end with coupled control sends them as soon as it hears so, and may say
// it later, as Linux does by up to 300 ms; and while only LACPDUs are missing, because the other end has not missed any yet.
func (p *Port) mux() {
	state := p.Actor.State &^ (Synchronization | Collecting | Distributing)
	if p.Selected || p.Individual {
		state |= Synchronization
	}
	if p.Individual || p.Selected && p.Partner.State&Synchronization != 0 {
		state |= Collecting
	}
	if p.Individual || state&Collecting != 0 && p.Partner.State&Collecting != 0 {
		state |= Distributing
	}
	if state != p.Actor.State {
		p.due = true
	}
	p.Actor.State = state
	p.Collecting = state&Synchronization != 0 || p.Receiving == WasCurrent && p.Collecting
	p.Distributing = state&Distributing != 0
}

// transmit sends a LACPDU if one is due, or periodically (§5.4.13, §5.4.16).
func (b *Bond) transmit(now time.Time, port int) {
	p := &b.ports[port]
	if p.Receiving == PortDisabled {
		return
	}
	if !p.due && now.Before(p.sendAt) || now.Before(p.mayBeSent(now)) {
		return
	}
	p.due = false
	p.sent = append(p.sent, now)
	if len(p.sent) > mostPDUs {
		p.sent = slices.Delete(p.sent, 0, 1)
	}
	p.Sent++
	period := slowPeriodic
	if p.Receiving != Current || p.Partner.State&Timeout != 0 {
		period = fastPeriodic
	}
	p.sendAt = now.Add(period)
	pdu := PDU{p.Actor, p.Partner}
	b.send(port, pdu.Frame(b.mac))
}

// mayBeSent returns from when on a LACPDU may be sent.
func (p *Port) mayBeSent(now time.Time) time.Time {
	if len(p.sent) < mostPDUs {
		return now
	}
	if t := p.sent[0].Add(fastPeriodic); t.After(now) {
		return t
	}
	return now
}

// Leave tells the other ends that the ports carry nothing any more.
func (b *Bond) Leave() {
	for i := range b.ports {
		p := &b.ports[i]
		if p.Receiving != Current {
			continue
		}
		pdu := PDU{p.Actor, p.Partner}
		pdu.Actor.State &^= Synchronization | Collecting | Distributing
		p.Sent++
		b.send(i, pdu.Frame(b.mac))
	}
}
