// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// limits are the most that a device holds in one queue, and its queue pairs; 0: it does not say.
type limits struct{ receives, completions, qps int }

// What bounds receive buffers, in ibv_query_device(3)'s words.
const (
	maxSRQ = "the device's max_srq_wr"
	maxCQ  = "the device's max_cqe"
)

const (
	leastReceives = 64

	// workerReceives is what a worker receives in 1 ms at full rate: workers are planned for 8 million messages a second
	// (docs/capacity.md). What a fast link carries in that time goes to several workers.
	workerReceives = 8192

	// The shortest message that crosses a link, in bytes.
	shortestIB       = 8 + 12 + 8 + 4 + 2                    // LRH, BTH, DETH, ICRC, VCRC
	shortestEthernet = 8 + 14 + 20 + 8 + 12 + 8 + 4 + 4 + 12 // preamble, Ethernet, IPv4, UDP, BTH, DETH, ICRC, FCS, gap

	// shareOfPool is how many times the default of all workers fits into the mempool: the rest is for sends, for the
	// Ethernet port's queues, and for what workers have in hand.
	shareOfPool = 3
)

// inOneMillisecond returns how many messages a worker can receive in 1 ms: as many as it is planned for, or as a slow
// link carries of the shortest.
func (i *PortInfo) inOneMillisecond() int {
	shortest := shortestIB
	if i.Ethernet {
		shortest = shortestEthernet
	}
	if i.Mbps == 0 {
		return workerReceives
	}
	bytes := i.Mbps * 1000 / 8
	return min(workerReceives, max(leastReceives, bytes/shortest))
}

// receives returns how many receive buffers each worker is to keep posted, how many it can, and what bounds those; "":
// nothing does. The configuration's number is bounded by the device alone.
func (c *Config) receives(i *PortInfo, device limits) (wanted, posted int, bound string) {
	wanted = c.Receives
	if wanted == 0 {
		wanted = i.inOneMillisecond()
	}
	posted = wanted
	lower := func(most int, by string) {
		if most < posted {
			posted, bound = most, by
		}
	}
	if c.Receives == 0 {
		lower(max(leastReceives, c.Pool.Size()/(shareOfPool*c.Workers)), "a third of [workers] mbufs")
	}
	if device.receives > 0 {
		lower(device.receives, maxSRQ)
	}
	if device.completions > 0 {
		lower(device.completions, maxCQ)
	}
	return wanted, posted, bound
}

// sizeReceives decides how many receive buffers each worker keeps posted. The completion queue has as many places.
func (p *Port) sizeReceives() error {
	device, err := p.dev.readLimits()
	if err != nil {
		return fmt.Errorf("verbs: %s: read the device's limits: %w", p.cfg.name(), err)
	}
	p.queuePairs = device.qps
	info := p.portInfo()
	wanted, posted, bound := p.cfg.receives(&info, device)
	switch bound {
	case "":
	case maxSRQ, maxCQ:
		p.log.Warn("receive_buffers", "port", p.cfg.name(), "each_worker", posted, "wanted", wanted, "bound", bound)
	default:
		p.log.Info("receive_buffers", "port", p.cfg.name(), "each_worker", posted, "wanted", wanted, "bound", bound)
	}
	p.cfg.Receives = posted
	return nil
}
