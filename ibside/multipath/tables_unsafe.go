// SPDX-License-Identifier: Apache-2.0

package multipath

// #cgo pkg-config: libdpdk
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include <stdlib.h>
// #include "multipath.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/ib"
)

// maxPorts is how many members a port can have.
const maxPorts = C.MULTIPATH_PORTS

// ownPort is in place of a destination: a GID of a member.
const ownPort = C.OWN_PORT

// A way is how a member reaches a destination; a zero LID: it does not.
type way struct {
	dgid     ib.GID
	qkey     ib.QKey
	lid      ib.LID
	sl       ib.SL
	rate     ib.Rate
	hopLimit uint8
	grh      bool
}

// A view is what workers know of a destination.
type view struct {
	gid   ib.GID
	sl    ib.SL
	group bool
	ways  [maxPorts]way
}

// cTables are what workers read. One caller at a time.
type cTables struct {
	p    *C.struct_multipath
	ends []*C.struct_end
}

func newTables(members []Member, workers, destinations, pairs, names int, pool *dpdk.Mempool) (*cTables, error) {
	t := &cTables{p: C.multipath_new(C.uint(len(members)), C.uint(workers), C.uint32_t(destinations), C.uint32_t(pairs), C.uint32_t(names))}
	if t.p == nil {
		return nil, errors.New("multipath: no memory for the tables")
	}
	for w := range workers {
		var ends [maxPorts]*C.struct_ib_port
		for i, m := range members {
			ends[i] = (*C.struct_ib_port)(m.Port.Pointer(w))
		}
		e := C.multipath_end(t.p, C.uint(w), &ends[0], (*C.struct_rte_mempool)(pool.Pointer()))
		if e == nil {
			t.free()
			return nil, errors.New("multipath: no memory for a worker")
		}
		t.ends = append(t.ends, e)
	}
	return t, nil
}

func (t *cTables) free() {
	C.multipath_free(t.p)
	t.p, t.ends = nil, nil
}

// pointer returns a worker's struct ib_port.
func (t *cTables) pointer(worker int) unsafe.Pointer { return unsafe.Pointer(&t.ends[worker].ib_port) }

func (t *cTables) put(destination uint32, v *view) {
	c := C.struct_view{sl: C.uint8_t(v.sl)}
	putGID(&c.gid, v.gid)
	if v.group {
		c.group = 1
	}
	for i, w := range v.ways {
		if w.lid == 0 {
			continue
		}
		to := &c.way[i]
		putGID(&to.dgid, w.dgid)
		to.qkey, to.lid, to.sl, to.rate, to.hop_limit = C.uint32_t(w.qkey), C.uint16_t(w.lid), C.uint8_t(w.sl), C.uint8_t(w.rate), C.uint8_t(w.hopLimit)
		to.flags = C.WAY_VALID
		if w.grh {
			to.flags |= C.WAY_GRH
		}
	}
	C.multipath_put(t.p, C.uint32_t(destination), &c)
}

func putGID(to *[16]C.uint8_t, gid ib.GID) {
	for i, b := range gid {
		to[i] = C.uint8_t(b)
	}
}

func (t *cTables) choose(destination uint32, c choice) {
	C.multipath_choose(t.p, C.uint32_t(destination),
		C.uint32_t(c.send)|C.uint32_t(c.take)<<C.CHOICE_TAKE_SHIFT|C.uint32_t(c.tell)<<C.CHOICE_TELL_SHIFT)
}

// nameGID makes a GID as a member knows it stand for a destination; false: there is no room.
func (t *cTables) nameGID(member int, gid ib.GID, destination uint32) bool {
	return bool(C.multipath_put_name(t.p, (*C.uint8_t)(&gid[0]), C.uint32_t(member), C.uint32_t(destination)))
}

func (t *cTables) forgetGID(member int, gid ib.GID) {
	C.multipath_delete_name(t.p, (*C.uint8_t)(&gid[0]), C.uint32_t(member))
}

func qpnKey(qpn ib.QPN) (key [16]byte) {
	binary.NativeEndian.PutUint32(key[:], uint32(qpn))
	return key
}

// nameQPN makes a QPN of a member stand for one that the datapath knows.
func (t *cTables) nameQPN(member int, qpn, as ib.QPN) bool {
	key := qpnKey(qpn)
	return bool(C.multipath_put_name(t.p, (*C.uint8_t)(&key[0]), C.NAME_QPN|C.uint32_t(member), C.uint32_t(as)))
}

func (t *cTables) forgetQPN(member int, qpn ib.QPN) {
	key := qpnKey(qpn)
	C.multipath_delete_name(t.p, (*C.uint8_t)(&key[0]), C.NAME_QPN|C.uint32_t(member))
}

func (t *cTables) putPair(number uint32, p *pair) {
	var c C.struct_pair
	for i := range p.qp {
		c.qp[i], c.qpn[i] = C.uint32_t(p.qp[i]), C.uint32_t(p.qpn[i])
	}
	C.multipath_put_pair(t.p, C.uint32_t(number), &c)
}

func (t *cTables) putLID(lid ib.LID, destination uint32) {
	C.multipath_put_lid(t.p, C.uint16_t(lid), C.uint32_t(destination))
}

func (t *cTables) putSLID(member int, slid, lid ib.LID) {
	C.multipath_put_slid(t.p, C.uint(member), C.uint16_t(slid), C.uint16_t(lid))
}

func (t *cTables) forgetSLIDs(member int) { C.multipath_forget_slids(t.p, C.uint(member)) }

// heard returns how many of a group's messages have come to a worker, by member.
func (t *cTables) heard(worker int, destination uint32) (n [maxPorts]uint64) {
	for i := range n {
		at := unsafe.Add(unsafe.Pointer(t.ends[worker].arrived), (uintptr(destination)*maxPorts+uintptr(i))*unsafe.Sizeof(C.uint64_t(0)))
		n[i] = uint64(C.multipath_read((*C.uint64_t)(at)))
	}
	return n
}

// Counters are what workers have counted of one member. Posted = Sent + Full.
type Counters struct {
	Posted, Sent uint64 // chosen for it, and taken by it
	Full         uint64 // it took no more
	Received     uint64 // from it, of which the following are dropped:
	Standby      uint64 // to groups that are taken from another
	Duplicate    uint64 // another has brought them
	Stranger     uint64 // to queue pairs that are none of hosts
}

func (t *cTables) counters(member int) (sum Counters) {
	read := func(c *C.uint64_t) uint64 { return uint64(C.multipath_read(c)) }
	for _, e := range t.ends {
		c := &e.count[member]
		sum.Posted += read(&c.posted)
		sum.Sent += read(&c.sent)
		sum.Full += read(&c.full)
		sum.Received += read(&c.received)
		sum.Standby += read(&c.standby)
		sum.Duplicate += read(&c.duplicate)
		sum.Stranger += read(&c.stranger)
	}
	return sum
}

// lost returns the sends that no member got, and copies for a further member that were not made.
func (t *cTables) lost() (noWay, noMbuf uint64) {
	for _, e := range t.ends {
		noWay += uint64(C.multipath_read(&e.no_way))
		noMbuf += uint64(C.multipath_read(&e.no_mbuf))
	}
	return noWay, noMbuf
}

// Pointer implements ibside.OpenPort.
func (p *Port) Pointer(worker int) unsafe.Pointer { return p.tables.pointer(worker) }

var _ ibside.OpenPort = (*Port)(nil)
