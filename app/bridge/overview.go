// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"causeway/app/bridge/link"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// Status returns management's state.
func (b *Bridge) Status() manage.Status { return b.loop.Status() }

// Ethernet returns the Ethernet port's own counters, and whether its link is up; of several the sums, and whether all
// are. Workers do not see what the port drops.
func (b *Bridge) Ethernet() (s dpdk.Stats, up bool) {
	b.whileOpen(func() {
		s = b.ports.stats()
		up = b.ports.state().Up()
	})
	return s, up
}

// Link returns whether frames can pass the Ethernet port, and what keeps them from it; of several, the first by which
// they cannot.
func (b *Bridge) Link() link.State {
	s := link.State{Reason: link.Deleted, Note: "the bridge has ended, and its port is closed"}
	b.whileOpen(func() { s = b.ports.state() })
	return s
}

// InfiniBandDown returns why no message can pass the InfiniBand port; "": they can.
func (b *Bridge) InfiniBandDown() string {
	why := "the bridge has ended, and its port is closed"
	b.whileOpen(func() { why = b.ibPort.Info().Down })
	return why
}

// Lost returns the messages that the IB port has lost, by direction and reason: towards IB after a worker counted them
// as sent, and towards RoCE before a worker received them.
func (b *Bridge) Lost() (lost [2]map[string]uint64) {
	b.whileOpen(func() { lost[lcore.RoCEToIB], lost[lcore.IBToRoCE] = b.ibPort.Lost() })
	return lost
}

// LostByDevice returns what the RDMA device counts of lost and damaged messages, by its names.
func (b *Bridge) LostByDevice() (lost map[string]uint64) {
	b.whileOpen(func() { lost = b.ibPort.LostByDevice() })
	return lost
}

// Services returns what became of requests for services that came to the IB port, and of those that it has sent.
func (b *Bridge) Services() (requests, connects map[string]uint64) {
	b.whileOpen(func() { requests, connects = b.ibPort.ServiceCounts() })
	return requests, connects
}

// A Memory is how much room there is for packets and table entries, and how much of it is in use.
type Memory struct {
	Packets, PacketsUsed int // of the mempool; those that workers and ports keep in reserve count as used
	PacketBytes          int
	TableBytes           int // of all tables, when they are full
	Hosts, Nodes, Groups [2]int
	ProxyQPs             [2]int // in use, and room for
	ProxyQPsShort        bool   // the device makes fewer than [workers] proxy_qps
	Requests             [2]int // for services, of the direction with more
	Streams              [2]int // of PGM
}

// Memory returns how much room there is.
func (b *Bridge) Memory() (m Memory) {
	b.whileOpen(func() {
		s, w := b.loop.Status(), &b.cfg.Workers
		streams, _ := b.PGM()
		m = Memory{
			Packets: b.pool.Size(), PacketsUsed: b.pool.InUse(), PacketBytes: b.pool.Bytes(), TableBytes: b.tables.Bytes(),
			Hosts: [2]int{s.Hosts, w.Hosts}, Nodes: [2]int{s.Nodes, w.Nodes},
			Groups: [2]int{s.Groups, w.Groups}, ProxyQPs: [2]int{s.ProxyQPs, s.ProxyQPsMost}, ProxyQPsShort: s.ProxyQPsMost < w.ProxyQPs,
			Requests: [2]int{max(s.Asked[0], s.Asked[1]), manage.RequestsMost},
			Streams:  [2]int{int(streams.Streams), len(w.LCores) * w.PGMStreams},
		}
	})
	return m
}

// WorkerCPUs returns each worker's CPU.
func (b *Bridge) WorkerCPUs() []int { return b.cfg.Workers.LCores }

// A Port is one of the two ports, as it was opened.
type Port struct {
	Name     string // as the configuration has it
	MAC      string // Ethernet only
	GIDs     []string
	LID      string
	MTU      int // bytes: of an IP packet on Ethernet, of a message on InfiniBand
	Ethernet bool
	Direct   bool // an InfiniBand port: workers use the device's queues without its library
}

// Ports returns the Ethernet port and the InfiniBand port. Of several the names are one after the other; EthernetPorts and
// Fabrics tell more.
func (b *Bridge) Ports() (ethernet, infiniband Port) {
	ethernet = Port{Name: ethernetNames(b.Config()), MTU: mostMTU(b.Config().Segments()), Ethernet: true}
	infiniband = Port{Name: ibPortNames(b.cfg)}
	b.whileOpen(func() {
		p, own := b.ibPort.Info(), b.ibPort.Own()
		ethernet.MAC = b.ports.list()[0].mac().String()
		infiniband.MTU, infiniband.Ethernet, infiniband.Direct = p.MTU.Bytes(), p.Ethernet, p.Direct
		if own.LID != 0 {
			infiniband.LID = own.LID.String()
		}
		for _, g := range own.GIDs {
			infiniband.GIDs = append(infiniband.GIDs, g.String())
		}
	})
	return ethernet, infiniband
}

// Rules returns the flow rules by which a port that is shared with the kernel gives frames to the bridge; none for a
// port that is not shared.
func (b *Bridge) Rules() (rules []dpdk.Rule) {
	b.whileOpen(func() {
		for _, p := range b.ports.list() {
			if p.port.Shared() {
				rules = append(rules, p.allRules()...)
			}
		}
	})
	return rules
}

// Tables returns a reader of the tables, which explain why a packet went where it did.
func (b *Bridge) Tables() Tables {
	s := segmenter{b}
	segments, numbers := s.segments(b.Config(), s.numbers())
	return Tables{&b.gate, b.tables, len(b.datapath.Workers()), segments, numbers}
}
