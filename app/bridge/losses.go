// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"causeway/dpdk"
	"causeway/ibside"
	"causeway/lcore"
)

// Lost is counts of losses by name, without those that are zero.
type Lost map[string]uint64

// Sum is the sum over all names.
func (l Lost) Sum() (n uint64) {
	for _, x := range l {
		n += x
	}
	return n
}

func (l Lost) add(name string, n uint64) {
	if n > 0 {
		l[name] += n
	}
}

// Losses are what was lost outside of the workers in one direction. Before is what came to the bridge and that no
// worker received: with what they received, it is all that came, unless BeforeUnknown: what the port missed is not
// counted. After is what a worker had sent.
type Losses struct {
	Before, After Lost
	BeforeUnknown bool
}

// atStop is what the devices had counted when the workers stopped: later they only lose.
type atStop struct {
	ethernet dpdk.Stats
	device   map[string]uint64
}

func (b *Bridge) readAtStop() atStop {
	e, _ := b.Ethernet()
	return atStop{e, b.LostByDevice()}
}

// Losses returns what the ports and their devices lost while the bridge ran, by direction. It is for a bridge that has
// run. What counters of the devices are of is not only the bridge's: the kernel's messages by the same port count, too.
func (b *Bridge) Losses() [2]Losses {
	var port [2]map[string]uint64
	port[lcore.RoCEToIB], port[lcore.IBToRoCE] = b.ibPort.Lost()
	return lossesOf(b.atStop, port)
}

func lossesOf(s atStop, port [2]map[string]uint64) (out [2]Losses) {
	for d := range out {
		out[d] = Losses{Before: Lost{}, After: Lost{}}
	}
	toIB, toRoCE := &out[lcore.RoCEToIB], &out[lcore.IBToRoCE]
	// RxNoMbuf is not here: it counts allocations; the frames that are lost by them are missed.
	toIB.Before.add("missed", s.ethernet.RxMissed)
	toIB.BeforeUnknown = s.ethernet.RxMissedUnknown
	toIB.Before.add("interface_dropped", s.ethernet.RxDropped)
	toIB.Before.add("receive_errors", s.ethernet.RxErrors)
	toRoCE.After.add("send_errors", s.ethernet.TxErrors)
	for reason, n := range port[lcore.RoCEToIB] {
		toIB.After.add(reason, n)
	}
	for reason, n := range port[lcore.IBToRoCE] {
		toRoCE.Before.add(reason, n)
	}
	for _, c := range ibside.LossCounters() {
		switch c.Kind {
		case ibside.LostReceives:
			toRoCE.Before.add(c.Name, s.device[c.Name])
		case ibside.LostSends:
			toIB.After.add(c.Name, s.device[c.Name])
		}
	}
	return out
}
