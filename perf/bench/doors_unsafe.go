// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "doors.h"
// #include "perf/nullverbs/nullverbs.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/fabric/door"
	"causeway/lcore"
	"causeway/perf/nullverbs"
)

// A doorSet is one of each kind of door, with memory of its own.
type doorSet struct {
	pool     *dpdk.Mempool
	null     *nullverbs.Door
	embedded *door.Door
}

func newDoorSet() (s *doorSet, err error) {
	s = &doorSet{}
	if s.pool, err = dpdk.NewMempool(name("doors"), inFlight+63, lcore.DataRoom, door.PrivSize); err != nil {
		return nil, err
	}
	if s.null, err = nullverbs.New(s.pool, nullverbs.Sizes{QPs: doorQPs, Peers: C.DOOR_PEERS}); err == nil {
		s.embedded, err = door.New(s.pool, 1, inFlight)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *doorSet) close() error {
	var err error
	if s.null != nil {
		err = s.null.Close()
	}
	if s.embedded != nil {
		err = errors.Join(err, s.embedded.Close())
	}
	if n := s.pool.InUse(); n > 0 {
		err = errors.Join(err, fmt.Errorf("bench: %d mbufs of the doors are lost", n))
	}
	return errors.Join(err, s.pool.Free())
}

// readDoor takes one reading of one way to use a door.
func (s *doorSet) readDoor(c *Config, use doorUse) (doorReading, error) {
	l := (*C.struct_door_loop)(C.calloc(1, C.sizeof_struct_door_loop))
	if l == nil {
		return doorReading{}, syscall.ENOMEM
	}
	defer C.free(unsafe.Pointer(l))
	l.pool = (*C.struct_rte_mempool)(s.pool.Pointer())
	l.burst, l.qps, l.payload = C.uint(use.burst), C.uint(use.qps), C.uint32_t(use.payload)
	if use.null {
		l.null = (*C.struct_nullverbs)(s.null.Pointer())
		l.door = C.nullverbs_door(l.null)
	} else {
		l.door = (*C.struct_ib_door)(s.embedded.Pointer(0))
		l.end = (*C.struct_door_end)(s.embedded.Pointer(0)) // its first member is the door
	}
	if rc := C.door_loop_run(l, C.bool(use.polls), C.uint(c.Lcores[0].id), C.uint64_t(c.Window.Nanoseconds())); rc != 0 {
		return doorReading{}, fmt.Errorf("bench: %v: %w", use, syscall.Errno(-rc))
	}
	if l.cost.dropped > 0 || l.cost.messages == 0 {
		return doorReading{}, fmt.Errorf("bench: %v: %d messages, %d dropped: this measured something else", use, l.cost.messages, l.cost.dropped)
	}
	ns := 1e9 / float64(C.door_counts()) / float64(l.cost.messages)
	return doorReading{
		call: float64(l.cost.call) * ns, far: float64(l.cost.far) * ns, bells: float64(l.cost.bells) / float64(l.cost.calls),
	}, nil
}
