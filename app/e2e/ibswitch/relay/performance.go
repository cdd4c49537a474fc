// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"
	"math"
	"slices"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// The performance management agent (§16.1).
const (
	classPerformance = 0x04

	attrClassPortInfo    = 0x0001
	attrPortCounters     = 0x0012
	attrPortCountersExt  = 0x001d
	offPerformanceData   = 64
	allPorts             = 0xff
	performanceMasks     = 0x0300 // ClassPortInfo's CapabilityMask: all ports at once; extended counters
	performanceRespTime  = 18     // 4.096 us * 2^18, a second
	performanceAttribute = 72     // the longest of these
)

// portTotals are a port's counters as PortCounters divide them.
type portTotals struct {
	wordsOut, wordsIn, packetsOut, packetsIn, groupOut, groupIn  uint64
	errorsIn, relayErrors, discards, constraintIn, constraintOut uint64
	linkDowned                                                   uint64
}

// totals returns the counters since the switch began.
func (c *counters) totals() portTotals {
	sum := func(which ...drop) (n uint64) {
		for _, d := range which {
			n += c.drops[d].Load()
		}
		return n
	}
	return portTotals{
		wordsOut: c.sentWords.Load(), wordsIn: c.receivedWords.Load(), packetsOut: c.sent.Load(), packetsIn: c.received.Load(),
		groupOut: c.sentGroup.Load(), groupIn: c.receivedGroup.Load(),
		errorsIn:     sum(dropHeader, dropRaw, dropLength, dropVCRC, dropVL, dropSMP),
		relayErrors:  sum(dropNoRoute, dropNoMember, dropSMPRoute),
		discards:     sum(dropOutState, dropMTU, dropQueue, dropLifetime, dropLink),
		constraintIn: sum(dropPKeyIn), constraintOut: sum(dropPKeyOut), linkDowned: c.linkDowned.Load(),
	}
}

// fields are all counters, to compute with.
func (t *portTotals) fields() []*uint64 {
	return []*uint64{
		&t.wordsOut, &t.wordsIn, &t.packetsOut, &t.packetsIn, &t.groupOut, &t.groupIn,
		&t.errorsIn, &t.relayErrors, &t.discards, &t.constraintIn, &t.constraintOut, &t.linkDowned,
	}
}

// since returns the counters since they were zero.
func (t portTotals) since(zero portTotals) portTotals {
	for i, f := range t.fields() {
		*f -= *zero.fields()[i]
	}
	return t
}

func (t portTotals) plus(o portTotals) portTotals {
	for i, f := range t.fields() {
		*f += *o.fields()[i]
	}
	return t
}

// serveGeneral has the agent answer a packet to port 0's queue pair 1. What is not for it is ignored.
func (s *Switch) serveGeneral(packet []byte) {
	p, fault := ib.ParsePacket(packet)
	if fault != ib.FaultNone || p.DestQP != ib.QP1 || p.QKey != ib.QKeyGSI || len(p.Payload) != ib.MADLen {
		return
	}
	mad := slices.Clone(p.Payload)
	h, _ := ib.AsMAD(mad)
	if h.Class() != classPerformance || h.Method() != ib.MethodGet && h.Method() != ib.MethodSet {
		return
	}
	s.mu.Lock()
	known, own, f := s.ports[0].Passes(p.PKey), s.ports[0].Info.LID, h.Fields()
	if known {
		f.Status = s.performance(f.AttrID, mad[offPerformanceData:], f.Method == ib.MethodSet)
	}
	s.mu.Unlock()
	if !known {
		return
	}
	f.Method = ib.MethodGetResp
	ib.PutMAD(mad, f)
	answer := ib.Packet{
		SL: p.SL, SLID: own, DLID: p.SLID, OpCode: ib.OpUDSendOnly, PKey: p.PKey, DestQP: p.SrcQP, SrcQP: ib.QP1, QKey: ib.QKeyGSI,
		Payload: mad,
	}
	s.originate(answer.AppendTo(nil))
}

// performance gets or resets counters. The caller holds the lock.
func (s *Switch) performance(attr uint16, data []byte, set bool) uint16 {
	if attr == attrClassPortInfo {
		clear(data[:performanceAttribute])
		data[0], data[1], data[7] = 1, 1, performanceRespTime
		binary.BigEndian.PutUint16(data[2:], performanceMasks)
		return smp.StatusOK
	}
	put := map[uint16]func([]byte, portTotals){attrPortCounters: putCounters, attrPortCountersExt: putExtended}[attr]
	if put == nil {
		return smp.StatusBadAttribute
	}
	chosen := s.chosen(data[1])
	if chosen == nil {
		return smp.StatusBadValue
	}
	var sum portTotals
	for _, p := range chosen {
		if set { // all counters, whichever were selected
			p.zero = p.totals()
		}
		sum = sum.plus(p.totals().since(p.zero))
	}
	clear(data[4:performanceAttribute])
	put(data, sum)
	return smp.StatusOK
}

func (s *Switch) chosen(port uint8) []*Port {
	switch {
	case port == allPorts:
		return s.ports[1:]
	case int(port) < len(s.ports):
		return s.ports[port : port+1]
	}
	return nil
}

// putCounters writes PortCounters (table 247) from the fourth byte on. Counters stop at their largest value.
func putCounters(b []byte, t portTotals) {
	put8 := func(at int, n uint64) { b[at] = uint8(min(n, math.MaxUint8)) }
	put16 := func(at int, n uint64) { binary.BigEndian.PutUint16(b[at:], uint16(min(n, math.MaxUint16))) }
	put32 := func(at int, n uint64) { binary.BigEndian.PutUint32(b[at:], uint32(min(n, math.MaxUint32))) }
	put8(7, t.linkDowned)
	put16(8, t.errorsIn)
	put16(12, t.relayErrors)
	put16(14, t.discards)
	put8(16, t.constraintOut)
	put8(17, t.constraintIn)
	put32(24, t.wordsOut)
	put32(28, t.wordsIn)
	put32(32, t.packetsOut)
	put32(36, t.packetsIn)
}

// putExtended writes PortCountersExtended from the fourth byte on.
func putExtended(b []byte, t portTotals) {
	for i, n := range []uint64{
		t.wordsOut, t.wordsIn, t.packetsOut, t.packetsIn, t.packetsOut - t.groupOut, t.packetsIn - t.groupIn, t.groupOut, t.groupIn,
	} {
		binary.BigEndian.PutUint64(b[8+8*i:], n)
	}
}
