// SPDX-License-Identifier: Apache-2.0

package pgm

/*
#include "pgm.h"
*/
import "C"

import (
	"fmt"
	"net/netip"
)

// A Count is something that is counted for each stream, and over all. Its number is its place in Counts.
type Count int

// The counts, as count.def describes them.
const (
	ODATA      Count = C.PGM_COUNT_odata
	Bytes      Count = C.PGM_COUNT_bytes
	RDATA      Count = C.PGM_COUNT_rdata
	SPM        Count = C.PGM_COUNT_spm
	NAK        Count = C.PGM_COUNT_nak
	NAKSQNs    Count = C.PGM_COUNT_nak_sqns
	NCF        Count = C.PGM_COUNT_ncf
	NCFSQNs    Count = C.PGM_COUNT_ncf_sqns
	NNAK       Count = C.PGM_COUNT_nnak
	POLL       Count = C.PGM_COUNT_poll
	POLR       Count = C.PGM_COUNT_polr
	SPMR       Count = C.PGM_COUNT_spmr
	ACK        Count = C.PGM_COUNT_ack
	Parity     Count = C.PGM_COUNT_parity
	Gaps       Count = C.PGM_COUNT_gaps
	Missed     Count = C.PGM_COUNT_missed
	Late       Count = C.PGM_COUNT_late
	Repaired   Count = C.PGM_COUNT_repaired
	Duplicates Count = C.PGM_COUNT_duplicates
	Repeated   Count = C.PGM_COUNT_repeated
	Old        Count = C.PGM_COUNT_old
	Far        Count = C.PGM_COUNT_far
	Restarts   Count = C.PGM_COUNT_restarts
	Window     Count = C.PGM_COUNT_window
	SPMMissed  Count = C.PGM_COUNT_spm_missed
	SPMLate    Count = C.PGM_COUNT_spm_late
	Unknown    Count = C.PGM_COUNT_unknown
	Unsummed   Count = C.PGM_COUNT_unsummed
	Trailing   Count = C.PGM_COUNT_trailing
	Malformed  Count = C.PGM_COUNT_malformed
	NCounts          = C.PGM_COUNTS
)

// String returns the count's name, as metrics use it.
func (c Count) String() string { return countNames[c] }

// Sentence says what is counted.
func (c Count) Sentence() string { return countSentences[c] }

// A Fault is a way in which a packet is not well-formed PGM.
type Fault int

// The faults, as fault.def describes them. Fine is none.
const (
	Fine        Fault = C.PGM_FINE
	HeadShort   Fault = C.PGM_FAULT_head_short
	BadVersion  Fault = C.PGM_FAULT_version
	BadType     Fault = C.PGM_FAULT_type
	BadChecksum Fault = C.PGM_FAULT_checksum
	BodyShort   Fault = C.PGM_FAULT_body_short
	BadAFI      Fault = C.PGM_FAULT_afi
	OptNone     Fault = C.PGM_FAULT_opt_none
	OptFirst    Fault = C.PGM_FAULT_opt_first
	OptTotal    Fault = C.PGM_FAULT_opt_total
	OptShort    Fault = C.PGM_FAULT_opt_short
	OptLong     Fault = C.PGM_FAULT_opt_long
	OptSize     Fault = C.PGM_FAULT_opt_size
	OptSecond   Fault = C.PGM_FAULT_opt_second
	OptMany     Fault = C.PGM_FAULT_opt_many
	OptEndEarly Fault = C.PGM_FAULT_opt_end_early
	OptEndNone  Fault = C.PGM_FAULT_opt_end_none
	NAKList     Fault = C.PGM_FAULT_nak_list
	TSDULong    Fault = C.PGM_FAULT_tsdu_long
	NFaults           = C.PGM_FAULTS
)

// String returns the fault's name, as metrics use it.
func (f Fault) String() string { return faultNames[f] }

// A Direction is a way through the bridge, numbered as in the datapath: 0 is RoCE to InfiniBand.
type Direction uint8

// NDirections is how many there are.
const NDirections = C.PGM_DIRECTIONS

// Counts are counts by their numbers.
type Counts [NCounts]uint64

// Add adds another reading.
func (c *Counts) Add(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Lost returns how many sequence numbers were skipped and have not come since, neither late nor repaired. Repairs from
// before the window are Old, so it may be fewer.
func (c *Counts) Lost() uint64 { return c[Missed] - c[Late] - c[Repaired] }

// A TSI is a stream's name, the transport session identifier.
type TSI struct {
	GSI  [6]byte
	Port uint16 // the source's
}

// String returns the identifier in decimal, with dots.
func (t TSI) String() string {
	g := t.GSI
	return fmt.Sprintf("%d.%d.%d.%d.%d.%d.%d", g[0], g[1], g[2], g[3], g[4], g[5], t.Port)
}

// A Stream is what one worker knows of one stream in one direction.
type Stream struct {
	TSI         TSI
	Group       uint32 // the group's id
	Direction   Direction
	DstPort     uint16
	Begun       bool   // Lead and Trail are known: data or an SPM has come
	Lead        uint32 // the newest sequence number
	Trail       uint32 // the oldest that the source can still repair
	SPM         uint32 // the newest SPM's number
	NLA         netip.Addr
	Finished    bool   // the source said that this is the end (OPT_FIN)
	Reset       bool   // the source gave up (OPT_RST)
	Options     uint32 // a bit for each known type of option that has come
	UnknownType uint8  // the last unknown option's
	Since       uint64 // TSC of the first packet
	Seen        uint64 // TSC of the last packet
	Counts      Counts
}

// DirectionTotals are sums over all streams of a direction, including removed ones; they never go down.
type DirectionTotals struct {
	Counts Counts
	Faults [NFaults]uint64 // Faults[Fine] is always 0
}

// Totals is a reading of what a tracker has done.
type Totals struct {
	Direction [NDirections]DirectionTotals
	Streams   uint64 // known now
	Begun     uint64 // ever
	Aged      uint64 // removed after silence
	Evicted   uint64 // removed for lack of room
}

// Add adds another reading.
func (t *Totals) Add(o *Totals) {
	for d := range t.Direction {
		t.Direction[d].Counts.Add(&o.Direction[d].Counts)
		for f, n := range o.Direction[d].Faults {
			t.Direction[d].Faults[f] += n
		}
	}
	t.Streams += o.Streams
	t.Begun += o.Begun
	t.Aged += o.Aged
	t.Evicted += o.Evicted
}
