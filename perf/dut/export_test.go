// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"time"

	"causeway/dpdk"
	"causeway/tables"
)

// TakenBy is how many messages each worker has received so far.
func (d *DUT) TakenBy() []uint64 {
	var out []uint64
	for _, p := range d.pairs {
		out = append(out, taken(p.worker.Counters()))
	}
	return out
}

// Pool has all mbufs of the device.
func (d *DUT) Pool() *dpdk.Mempool { return d.pool }

// Empty returns all mbufs of the generators to the pool. Nothing may run.
func (d *DUT) Empty() {
	for _, p := range d.pairs {
		p.gen.Empty()
	}
}

// Tables are the device's. Joins and leaves must not run at the same time as other writers.
func (d *DUT) Tables() *tables.Tables { return d.tables }

// FloodOf is floodOf of slices with these rates and waits, in which twice as much was received.
func FloodOf(pps []float64, waited []time.Duration) Flood {
	var all []slice
	for i := range pps {
		all = append(all, slice{pps: pps[i], received: 2 * pps[i], waited: waited[i]})
	}
	return floodOf(all)
}
