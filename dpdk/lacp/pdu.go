// SPDX-License-Identifier: Apache-2.0

package lacp

import "encoding/binary"

// A State is the state of a port at one end of a link (IEEE 802.1AX-2008 §5.4.2.2 m).
type State uint8

// Its bits.
const (
	Activity        State = 1 << iota // sends even to who does not
	Timeout                           // short: wants a LACPDU each second, and waits for three
	Aggregation                       // may be one of several links
	Synchronization                   // is in the right aggregator
	Collecting                        // receives
	Distributing                      // sends
	Defaulted                         // has nothing of the other end
	Expired                           // has had nothing of the other end for too long
)

// An End is a port as LACPDUs describe it, of either end of a link.
type End struct {
	SystemPriority uint16
	System         [6]byte // a MAC address of the station
	Key            uint16  // ports of a station with one key can be aggregated
	PortPriority   uint16
	Port           uint16
	State          State
}

// aggregator tells whose port it is: ports of one aggregator can be one link (§5.3.6.1).
func (e *End) aggregator() End {
	return End{SystemPriority: e.SystemPriority, System: e.System, Key: e.Key}
}

// samePort reports whether both are one port of one station with one key (§5.4.8, matched).
func (e *End) samePort(o *End) bool {
	a, b := *e, *o
	a.State, b.State = a.State&Aggregation, b.State&Aggregation
	return a == b
}

// A PDU is what a LACPDU says: who sends, and whom it believes to be at the other end.
type PDU struct{ Actor, Partner End }

// A frame, without FCS, of a LACPDU and of a marker (§5.4.2.2, §5.5.3.3), from its Ethernet header on.
const (
	frameLen    = 124
	atSubtype   = 14
	atVersion   = 15
	atActor     = 16 // type and length, then an End
	atPartner   = 36
	atCollector = 56
	endLen      = 20
	slowType    = 0x8809 // IEEE 802.3 Annex 57A: slow protocols

	subtypeLACP   = 1
	subtypeMarker = 2

	typeActor, typePartner, typeCollector, collectorLen = 1, 2, 3, 16
	typeMarker, typeMarkerResponse, markerLen           = 1, 2, 16
)

// slowGroup is where slow protocols' frames are sent to; no bridge of the network forwards it.
var slowGroup = [6]byte{0x01, 0x80, 0xc2, 0, 0, 0x02}

// subtype returns the protocol of a slow protocols' frame that is long enough; 0: it is none.
func subtype(frame []byte) byte {
	if len(frame) < frameLen || [6]byte(frame) != slowGroup || binary.BigEndian.Uint16(frame[12:]) != slowType {
		return 0
	}
	return frame[atSubtype]
}

// Parse reads a LACPDU. Version, types and lengths are not validated: what there is of version 1 lies where that has it, and later
// versions have more behind it (§5.4.2.2, §5.4.12).
func Parse(frame []byte) (PDU, bool) {
	if subtype(frame) != subtypeLACP {
		return PDU{}, false
	}
	return PDU{readEnd(frame[atActor+2:]), readEnd(frame[atPartner+2:])}, true
}

func readEnd(b []byte) End {
	return End{
		SystemPriority: binary.BigEndian.Uint16(b), System: [6]byte(b[2:]), Key: binary.BigEndian.Uint16(b[8:]),
		PortPriority: binary.BigEndian.Uint16(b[10:]), Port: binary.BigEndian.Uint16(b[12:]), State: State(b[14]),
	}
}

func (e *End) put(b []byte) {
	binary.BigEndian.PutUint16(b, e.SystemPriority)
	copy(b[2:], e.System[:])
	binary.BigEndian.PutUint16(b[8:], e.Key)
	binary.BigEndian.PutUint16(b[10:], e.PortPriority)
	binary.BigEndian.PutUint16(b[12:], e.Port)
	b[14] = byte(e.State)
}

// Frame returns the PDU in a frame from a MAC address.
func (p *PDU) Frame(from [6]byte) []byte {
	b := slowFrame(from, subtypeLACP)
	b[atActor], b[atActor+1] = typeActor, endLen
	p.Actor.put(b[atActor+2:])
	b[atPartner], b[atPartner+1] = typePartner, endLen
	p.Partner.put(b[atPartner+2:])
	b[atCollector], b[atCollector+1] = typeCollector, collectorLen // its CollectorMaxDelay is 0: frames are delivered at once
	return b
}

func slowFrame(from [6]byte, subtype byte) []byte {
	b := make([]byte, frameLen)
	copy(b, slowGroup[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint16(b[12:], slowType)
	b[atSubtype], b[atVersion] = subtype, 1
	return b
}

// markerResponse answers a marker, by which the other end finds out that all frames before it have been received
// (§5.3.4); nil: it is no marker.
func markerResponse(frame []byte, from [6]byte) []byte {
	if subtype(frame) != subtypeMarker || frame[atActor] != typeMarker || frame[atActor+1] != markerLen {
		return nil
	}
	b := slowFrame(from, subtypeMarker)
	copy(b[atVersion:], frame[atVersion:frameLen])
	b[atActor] = typeMarkerResponse
	return b
}

// String returns a letter for each bit that is set, in their order, and a dash for others: ATGSCDdE.
func (s State) String() string {
	text := []byte("ATGSCDdE")
	for i := range text {
		if s>>i&1 == 0 {
			text[i] = '-'
		}
	}
	return string(text)
}
