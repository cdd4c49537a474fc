// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "hca.h"
// #include "ports.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// A verbsPort is a verbs port with its mempool.
type verbsPort struct {
	pool *dpdk.Mempool
	hca  *hca
	c    *C.struct_port_loop
}

func newVerbsPort(qps int, way string) (p *verbsPort, err error) {
	p = &verbsPort{c: (*C.struct_port_loop)(C.calloc(1, C.sizeof_struct_port_loop))}
	if p.c == nil {
		return nil, syscall.ENOMEM
	}
	if p.pool, err = dpdk.NewMempool(name("ports"), portReceives+2047, lcore.DataRoom, privateBytes); err == nil {
		p.hca, err = newHCA(p.pool, qps, portReceives, way)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	for i := range p.c.peer {
		p.c.peer[i] = nodeAH(i)
		if err := p.hca.meet(i); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	p.c.pool, p.c.hca = (*C.struct_rte_mempool)(p.pool.Pointer()), p.hca.c
	return p, nil
}

func (p *verbsPort) close() (err error) {
	C.free(unsafe.Pointer(p.c))
	if p.hca != nil {
		err = p.hca.close()
	}
	if p.pool == nil {
		return err
	}
	if n := p.pool.InUse(); n > 0 {
		return errors.Join(err, fmt.Errorf("bench: the port has lost %d mbufs", n))
	}
	return errors.Join(err, p.pool.Free())
}

// read takes one reading of one use.
func (p *verbsPort) read(c *Config, use portUse) (r portReading, err error) {
	before, err := p.hca.count()
	if err != nil {
		return r, err
	}
	l := p.c
	l.polls, l.burst, l.qps = C.bool(use.polls), C.uint(use.burst), C.uint(use.qps)
	l.payload, l.qkey, l.ns = portPayload, C.uint32_t(ib.QKeyRDMAUDP), C.uint64_t(c.Window.Nanoseconds())
	if rc := C.port_loop_run(l, C.uint(c.Lcores[0].id)); rc != 0 {
		return r, fmt.Errorf("bench: %v: %w", use, syscall.Errno(-rc))
	}
	after, err := p.hca.count()
	if l.cost.messages == 0 {
		return r, fmt.Errorf("bench: %v: %w", use, errBusyLcore)
	}
	ns := 1e9 / float64(lcore.TSCHz()) / float64(l.cost.messages)
	r = portReading{call: float64(l.cost.call) * ns, device: float64(l.cost.device) * ns}
	if n := after.posted - before.posted; n > 0 {
		r.bells = float64(after.bells-before.bells) / float64(n)
	}
	return r, err
}
