// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
)

// RingPort is a port made of rings: a test, or another thread, is the fabric at its other end.
//
//	ToPort(q) ──▶ rte_eth_rx_burst(q)      rte_eth_tx_burst(q) ──▶ FromPort(q)
type RingPort struct {
	Port     *Port
	to, from []*Ring
}

// OpenRingPort is OpenPort("ring", config).RingPort.
func OpenRingPort(config PortConfig) (*RingPort, error) {
	p, err := OpenPort("ring", config)
	if err != nil {
		return nil, err
	}
	return p.rings, nil
}

// RingPort answers the rings of a "ring" port, nil of another.
func (p *Port) RingPort() *RingPort { return p.rings }

// ToPort is the ring whose mbufs the worker will receive from that queue. Any number of threads may enqueue.
func (r *RingPort) ToPort(queue int) *Ring { return r.to[queue] }

// FromPort is the ring with the mbufs that the worker sent to that queue. One thread may dequeue.
func (r *RingPort) FromPort(queue int) *Ring { return r.from[queue] }

func planRing(arg string, config *PortConfig) (portPlan, error) {
	if arg != "" {
		return portPlan{}, errors.New("a ring port has no argument; write it as ring")
	}
	if config.RxQueues > maxRingQueues || config.TxQueues > maxRingQueues {
		return portPlan{}, fmt.Errorf("%d Rx and %d Tx queues: a ring port has at most %d", config.RxQueues, config.TxQueues, maxRingQueues)
	}
	mtu := mtuOr(config.MTU, defaultMTU)
	return portPlan{mtu: mtu, mbufRoom: frameRoom(mtu), tellMTU: true}, nil
}

// maxRingQueues is RTE_PMD_RING_MAX_RX_RINGS and _TX_RINGS.
const maxRingQueues = 16

// plugRings makes the rings and the net_ring device on them.
func (p *Port) plugRings() error {
	number := hotplug.next
	hotplug.next++
	r := &RingPort{Port: p}
	var err error
	if r.to, err = makeRings(fmt.Sprintf("ring%d-to", number), p.config.RxQueues, p.config.RxDescs, true); err != nil {
		return err
	}
	if r.from, err = makeRings(fmt.Sprintf("ring%d-from", number), p.config.TxQueues, p.config.TxDescs, false); err != nil {
		r.free()
		return err
	}
	name := fmt.Sprintf("causeway%d", number)
	p.bus, p.device = "vdev", "net_ring_"+name // rte_eth_from_rings adds it
	to, from := ringArray(r.to), ringArray(r.from)
	var id C.int
	err = withCString(name, func(c *C.char) C.int {
		id = C.dpdk_port_from_rings(c, &to[0], C.uint(len(to)), &from[0], C.uint(len(from)))
		return id
	})
	if err != nil {
		r.free()
		return why(err)
	}
	p.id, p.rings = C.uint16_t(id), r
	return nil
}

func makeRings(prefix string, queues, size int, multiProducer bool) ([]*Ring, error) {
	var rings []*Ring
	for q := range queues {
		ring, err := NewRing(fmt.Sprintf("%s%d", prefix, q), size, multiProducer)
		if err != nil {
			freeRings(rings)
			return nil, err
		}
		rings = append(rings, ring)
	}
	return rings, nil
}

func ringArray(rings []*Ring) []*C.struct_rte_ring {
	var array []*C.struct_rte_ring
	for _, r := range rings {
		array = append(array, r.p)
	}
	return array
}

func (r *RingPort) free() {
	freeRings(r.to)
	freeRings(r.from)
}

func freeRings(rings []*Ring) {
	for _, r := range rings {
		r.Free()
	}
}
