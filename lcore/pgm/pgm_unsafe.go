// SPDX-License-Identifier: Apache-2.0

package pgm

/*
#include "pgm.h"
#include "../../tables/table_map.h"
*/
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"
)

// Config says how a tracker is to be.
type Config struct {
	Streams    int    // room for so many, rounded up to a power of two
	Checksum   bool   // check the checksums of packets that have one
	IdleCycles uint64 // TSC cycles of silence after which a stream is removed; 0: never
}

// MostStreams is the most that a tracker has room for.
const MostStreams = C.PGM_STREAMS_MOST

// A Tracker belongs to one worker, which alone may write it; any goroutine may read it.
type Tracker struct {
	c     *C.struct_pgm
	bytes C.size_t
}

// New makes a tracker. Its memory, some 530 bytes a stream, is taken here and never grows.
func New(config Config) (*Tracker, error) {
	if config.Streams < 1 || config.Streams > MostStreams {
		return nil, fmt.Errorf("pgm: %d streams: must be 1 to %d", config.Streams, MostStreams)
	}
	var seed [16]byte
	rand.Read(seed[:])
	c := C.struct_pgm_config{streams: C.uint32_t(config.Streams), checksum: C.bool(config.Checksum), idle: C.uint64_t(config.IdleCycles)}
	for i := range c.seed {
		c.seed[i] = C.uint64_t(binary.NativeEndian.Uint64(seed[8*i:]))
	}
	bytes := C.size_t(C.pgm_bytes(&c))
	memory := C.map_new(bytes)
	if memory == nil {
		return nil, errors.New("pgm: no memory")
	}
	return &Tracker{C.pgm_init(memory, &c), bytes}, nil
}

// Near has the tracker be on the NUMA node of its worker, as long as that has memory left. -1 is any node.
func (t *Tracker) Near(node int) {
	C.map_near(unsafe.Pointer(t.c), t.bytes, C.int(node), C.MPOL_MF_MOVE)
}

// Close frees the tracker. No worker may use it any more.
func (t *Tracker) Close() {
	C.unmap(unsafe.Pointer(t.c), t.bytes)
	t.c = nil
}

// Pointer returns the struct pgm, for a worker. It is valid until Close.
func (t *Tracker) Pointer() unsafe.Pointer { return unsafe.Pointer(t.c) }

// Streams returns all streams that are known, in no order. Those that change too fast to be read are left out; that
// takes a worker that does nothing else.
func (t *Tracker) Streams() []Stream {
	var all []Stream
	var c C.struct_pgm_stream
	for place := range C.pgm_places(t.c) {
		what := C.pgm_read(t.c, place, &c)
		for tries := 0; what == C.PGM_BUSY && tries < 100; tries++ {
			runtime.Gosched()
			what = C.pgm_read(t.c, place, &c)
		}
		if what == C.PGM_READ {
			all = append(all, stream(&c))
		}
	}
	return all
}

func stream(c *C.struct_pgm_stream) Stream {
	s := Stream{
		TSI:         TSI{Port: uint16(c.tsi)},
		Group:       uint32(C.pgm_group(c)),
		Direction:   Direction(C.pgm_direction(c)),
		DstPort:     uint16(c.dport),
		Begun:       c.flags&C.PGM_BEGUN != 0,
		Lead:        uint32(c.lead),
		Trail:       uint32(c.trail),
		SPM:         uint32(c.spm),
		Finished:    c.flags&C.PGM_FINISHED != 0,
		Reset:       c.flags&C.PGM_RESET != 0,
		Options:     uint32(c.options),
		UnknownType: uint8(c.unknown_type),
		Since:       uint64(c.since),
		Seen:        uint64(c.seen),
		Counts:      *(*Counts)(unsafe.Pointer(&c.counts)),
	}
	var tsi [8]byte
	binary.BigEndian.PutUint64(tsi[:], uint64(c.tsi))
	copy(s.TSI.GSI[:], tsi[:])
	nla := *(*[16]byte)(unsafe.Pointer(&c.nla))
	switch c.afi {
	case 1:
		s.NLA = netip.AddrFrom4([4]byte(nla[:4]))
	case 2:
		s.NLA = netip.AddrFrom16(nla)
	}
	return s
}

// Totals reads the sums. Each is read whole, but they are not all of one moment.
func (t *Tracker) Totals() Totals {
	var out Totals
	for d := range out.Direction {
		c := &t.c.totals[d]
		for i := range c.counts {
			out.Direction[d].Counts[i] = load(&c.counts[i])
		}
		for i := range c.faults {
			out.Direction[d].Faults[i] = load(&c.faults[i])
		}
	}
	out.Streams, out.Begun, out.Aged, out.Evicted = load(&t.c.streams), load(&t.c.begun), load(&t.c.aged), load(&t.c.evicted)
	return out
}
