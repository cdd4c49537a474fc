// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"causeway/dpdk"
	"causeway/tables"
)

// Pool has all mbufs of the device.
func (b *Bridge) Pool() *dpdk.Mempool { return b.pool }

// Empty has the generators give back to the pool what they hold, when nothing runs.
func (b *Bridge) Empty() {
	for _, p := range b.pairs {
		p.gen.Empty()
	}
}

// Tables are the device's. While it runs, nobody else may write them.
func (b *Bridge) Tables() *tables.Tables { return b.tables }
