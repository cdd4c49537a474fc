// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"slices"

	"causeway/ibside/ib"
	"causeway/ibside/multipath"
	"causeway/tables"
)

// fabricsModel is the reference of a bridge with two InfiniBand ports: that of one, between two that give a port's
// addresses to what is sent and take them from what is received.
type fabricsModel struct {
	*reference
	*fabrics
	slids    [2]map[ib.LID]ib.LID // a port's LIDs of nodes to the datapath's
	streams  [16][8]modelStream
	clock    uint64
	received [2]uint64
	marks    [2]map[string]uint64 // why a port's messages were dropped by its own word, and how many
}

// newFabricsModel is made after the rig, which has the ports.
func newFabricsModel(w *fixture) *fabricsModel {
	m := &fabricsModel{reference: newReference(w), fabrics: w.fabrics}
	for i := range m.slids {
		m.slids[i], m.marks[i] = map[ib.LID]ib.LID{}, map[string]uint64{}
		for _, d := range m.destinations {
			if x := d.by[i]; x != nil && !d.group && x.hops < 2 { // a router's LIDs are nobody's
				for k := range ib.LID(1) << x.lmc {
					m.slids[i][x.lid+k] = d.lid
				}
			}
		}
	}
	return m
}

// judge says what each port sends: all that the first does, and then all that the second does.
func (m *fabricsModel) judge(frames [][]byte) judged {
	j := m.reference.judge(frames)
	var sent [2][]posted
	for _, p := range j.sent {
		d, by := m.byNumber[p.DLID], 0
		for i := range sent {
			if d != nil && d.send[i] {
				sent[i] = append(sent[i], m.sentBy(i, d, p))
				by++
			}
		}
		if by == 0 {
			j.drops[multipath.LostNoWay]++
		}
	}
	j.sent = slices.Concat(sent[0], sent[1])
	return j
}

// sentBy is a message as a port sends it.
func (m *fabricsModel) sentBy(port int, d *fabricsDestination, p posted) posted {
	x := d.by[port]
	pair := slices.IndexFunc(m.proxyQPs, func(s tables.ProxyQP) bool { return s.QP == p.QP })
	p.port, p.QP, p.Source = port, m.members[port].qps[pair], 0
	p.DGID, p.DLID, p.HopLimit, p.Rate = x.gid, x.lid, x.hops, x.rate
	if p.immQPN {
		p.Imm = uint32(m.members[port].qpns[pair])
	}
	switch {
	case d.group:
		p.SL, p.QKey = x.sl, x.qkey
	case p.SL == d.sl: // else the packet's DSCP has asked for another one
		p.SL = x.sl
	}
	if !d.group {
		p.HasGRH = x.grh
	}
	return p
}

// An arrival is a message that comes by one of the ports, with the addresses that are known there.
type arrival struct {
	message
	port int
}

// inOrder returns arrivals as the worker takes them: bursts of both ports' messages. The port that it looks at first
// changes with each of its rounds, of which there have been that many.
func inOrder(all []arrival, rounds uint64) []arrival {
	var queue [2][]arrival
	for _, a := range all {
		queue[a.port] = append(queue[a.port], a)
	}
	out := make([]arrival, 0, len(all))
	for len(out) < len(all) {
		rounds++
		room := 64
		for i := range uint64(2) {
			q := &queue[(rounds+i)%2]
			n := min(room, len(*q))
			out, *q = append(out, (*q)[:n]...), (*q)[n:]
			room -= n
		}
	}
	return out
}

// fromFabric returns the frame for a message, or the reason why there is none.
func (m *fabricsModel) fromFabric(a *arrival) ([]byte, string) {
	x := a.message
	m.received[a.port]++
	m.ask = m.rename(a.port, &x)
	return m.fromIB(&x)
}

// rename puts the datapath's addresses in place of the port's, and returns what says why a message that would cross may
// not; nil: it may.
func (m *fabricsModel) rename(port int, x *message) (ask func() string) {
	number := func() {
		i := slices.Index(m.members[port].qpns, x.QPN)
		if x.QPN = 0; i >= 0 {
			x.QPN = m.members[0].qpns[i]
		}
	}
	if !x.HasGRH {
		x.SLID = m.slids[port][x.SLID]
		number()
		return nil
	}
	from, to := ib.GID(x.GRH[8:24]), ib.GID(x.GRH[24:40])
	if d := m.find(port, from); d != nil {
		copy(x.GRH[8:], d.gid[:])
	}
	if x.GRH[0]>>4 != 6 || x.GRH[24] != 0xff {
		number()
		return nil
	}
	d := m.find(port, to)
	if slices.Contains(slices.Concat(memberGIDs[0], memberGIDs[1]), from) {
		return nil
	}
	if d != nil {
		copy(x.GRH[24:], d.gid[:])
	}
	return func() (why string) {
		switch {
		case d == nil || !d.take[port]: // of a group without a name nothing tells whose turn it is
			why = "standby_port"
		case m.isCopy(d, port, x):
			why = "duplicate"
		}
		if why != "" {
			m.marks[port][why]++
		}
		return why
	}
}

// A modelStream is the messages of which copies are told by their numbers: those of one sender to one group.
type modelStream struct {
	key  modelKey
	used uint64
	seen map[uint32]*seenNumber // by the number's place in the window
}

type modelKey struct {
	from, own [2]uint64
	to        *fabricsDestination
}

type seenNumber struct {
	number uint32
	times  [2]uint8
}

const modelWindow = 2048

// isCopy reports whether the other port has brought a message at least as often, counting this one.
func (m *fabricsModel) isCopy(d *fabricsDestination, port int, x *message) bool {
	pair := binary.LittleEndian.Uint64
	key, number, ok := modelKey{from: [2]uint64{pair(x.GRH[8:]), pair(x.GRH[16:])}, to: d}, x.Imm, x.HasImm
	switch d.rule.Tell {
	case multipath.TellNothing:
		return false
	case multipath.TellPGM:
		if ok = len(x.Payload) >= 20; ok {
			var k [16]byte
			copy(k[:5], x.Payload)
			k[4] &= 0xf
			copy(k[8:], x.Payload[8:14])
			key.own = [2]uint64{pair(k[:]), pair(k[8:])}
			number = binary.BigEndian.Uint32(x.Payload[16:])
		}
	}
	if !ok {
		return false
	}
	s := m.stream(key)
	m.clock++
	s.used = m.clock
	n := s.seen[number%modelWindow]
	if n == nil || n.number != number {
		n = &seenNumber{number: number}
		s.seen[number%modelWindow] = n
	}
	if n.times[port] < 255 {
		n.times[port]++
	}
	return n.times[port] <= n.times[1-port]
}

// stream finds a stream, or forgets the one that was silent for longest of those that share its place. Where it has its
// place is the port's choice, and no rule: the model makes the same one, because otherwise it would remember others.
func (m *fabricsModel) stream(key modelKey) *modelStream {
	to := uint64(1 + slices.Index(m.destinations, key.to)) // groups are numbered as they are joined
	set := &m.streams[(key.from[0]^key.from[1]*3^key.own[0]*5^key.own[1]*7^to)*0x9e3779b97f4a7c15>>60]
	oldest := &set[0]
	for i := range set {
		s := &set[i]
		if s.used != 0 && s.key == key {
			return s
		}
		if s.used < oldest.used {
			oldest = s
		}
	}
	*oldest = modelStream{key: key, seen: map[uint32]*seenNumber{}}
	return oldest
}
