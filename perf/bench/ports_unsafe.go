// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "ports.h"
// #include "perf/nullverbs/nullverbs.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/perf/nullverbs"
)

// A verbsPort is a verbs port on a null device, with its mempool.
type verbsPort struct {
	pool *dpdk.Mempool
	null *nullverbs.Port
}

func newVerbsPort() (p *verbsPort, err error) {
	p = &verbsPort{}
	if p.pool, err = newPool(name("ports")); err != nil {
		return nil, err
	}
	if p.null, err = nullverbs.New(p.pool, nullverbs.Sizes{QPs: portQPs, Peers: C.PORT_PEERS}); err != nil {
		return nil, errors.Join(err, p.pool.Free())
	}
	return p, nil
}

func (p *verbsPort) close() error {
	err := p.null.Close()
	if n := p.pool.InUse(); n > 0 {
		err = errors.Join(err, fmt.Errorf("bench: the port has lost %d mbufs", n))
	}
	return errors.Join(err, p.pool.Free())
}

// read takes one reading of one use.
func (p *verbsPort) read(c *Config, use portUse) (portReading, error) {
	l := (*C.struct_port_loop)(C.calloc(1, C.sizeof_struct_port_loop))
	if l == nil {
		return portReading{}, syscall.ENOMEM
	}
	defer C.free(unsafe.Pointer(l))
	l.pool, l.null = (*C.struct_rte_mempool)(p.pool.Pointer()), (*C.struct_nullverbs)(p.null.Pointer())
	l.polls, l.burst, l.qps, l.payload = C.bool(use.polls), C.uint(use.burst), C.uint(use.qps), portPayload
	l.ns = C.uint64_t(c.Window.Nanoseconds())
	if rc := C.port_loop_run(l, C.uint(c.Lcores[0].id)); rc != 0 {
		return portReading{}, fmt.Errorf("bench: %v: %w", use, syscall.Errno(-rc))
	}
	cost := &l.cost
	if cost.dropped > 0 || cost.messages == 0 {
		return portReading{}, fmt.Errorf("bench: %v: %d messages, %d dropped: this measured something else", use, cost.messages, cost.dropped)
	}
	ns := 1e9 / float64(C.port_tsc_hz()) / float64(cost.messages)
	return portReading{
		call: float64(cost.call) * ns, device: float64(cost.device) * ns, doorbells: float64(cost.bells) / float64(cost.calls),
	}, nil
}
