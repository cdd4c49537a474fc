// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"
	"strings"

	"causeway/app/bridge/link"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

// ports are the Ethernet ports, which are those of the start as long as the bridge runs.
type ports struct {
	gate     *gate
	ethernet []*ethernetPort
	again    chan struct{} // has a value after each link_up
	datapath *lcore.Datapath
}

// of returns the port of a segment. Others than those of the start have been rejected.
func (x *ports) of(r *config.RoCE) *ethernetPort {
	i := slices.IndexFunc(x.ethernet, func(p *ethernetPort) bool { return p.name == r.Port })
	return x.ethernet[max(0, i)]
}

func (x *ports) moreMACs() (all [][6]byte) {
	for _, p := range x.ethernet[1:] {
		all = append(all, p.mac())
	}
	return all
}

func (x *ports) moreIDs() (all []uint16) {
	for _, p := range x.ethernet[1:] {
		all = append(all, p.port.ID())
	}
	return all
}

// nameOf names the port of a frame, by its index; "": there is one.
func (x *ports) nameOf(i uint8) string {
	if len(x.ethernet) == 1 || int(i) >= len(x.ethernet) {
		return ""
	}
	return x.ethernet[i].name.String()
}

// anyShared reports whether a port is shared with the kernel.
func (x *ports) anyShared() bool {
	return slices.ContainsFunc(x.ethernet, func(p *ethernetPort) bool { return p.port.Shared() })
}

// up reports whether frames can pass all ports.
func (x *ports) up() bool {
	return !slices.ContainsFunc(x.ethernet, func(p *ethernetPort) bool { return !p.carriers.up() })
}

// state returns that of the first port that is not up.
func (x *ports) state() link.State {
	for _, p := range x.ethernet {
		if s := p.carriers.state(); !s.Up() {
			return s
		}
	}
	return link.State{}
}

// addSegments makes ports ready for segments that are to come, all of them or none.
func (x *ports) addSegments(segments []config.RoCE) (undo func() error, err error) {
	var done []func() error
	undo = func() error {
		var errs []error
		for _, f := range slices.Backward(done) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for _, p := range x.ethernet {
		own := slices.DeleteFunc(slices.Clone(segments), func(r config.RoCE) bool { return r.Port != p.name })
		if len(own) == 0 {
			continue
		}
		f, err := p.addSegments(own)
		if err != nil {
			return nil, errors.Join(err, undo())
		}
		done = append(done, f)
	}
	return undo, nil
}

// ethernetNames names all Ethernet ports.
func ethernetNames(cfg *config.Config) string {
	var names []string
	for _, p := range cfg.EthPorts() {
		names = append(names, p.String())
	}
	return strings.Join(names, " + ")
}

// addStats adds the counters of a port to those of others.
func addStats(sum *dpdk.Stats, s dpdk.Stats) {
	sum.RxPackets += s.RxPackets
	sum.TxPackets += s.TxPackets
	sum.RxBytes += s.RxBytes
	sum.TxBytes += s.TxBytes
	sum.RxMissed += s.RxMissed
	sum.RxMissedUnknown = sum.RxMissedUnknown || s.RxMissedUnknown
	sum.RxDropped += s.RxDropped
	sum.RxErrors += s.RxErrors
	sum.RxNoMbuf += s.RxNoMbuf
	sum.TxErrors += s.TxErrors
}

// An EthernetPort is one of the Ethernet ports.
type EthernetPort struct {
	Port
	Stats    dpdk.Stats
	Link     link.State
	Counters lcore.PortCounters // of RoCE; towards RoCE, received is what was routed to the port
}

// ofOnly is what of the workers' counters is that of an only port.
func ofOnly(c lcore.Counters) lcore.PortCounters {
	full, _ := lcore.DropNamed("eth_full")
	out := lcore.DirectionCounters{Sent: c.Direction[lcore.IBToRoCE].Sent, SentBytes: c.Direction[lcore.IBToRoCE].SentBytes, Drops: map[lcore.Drop]uint64{}}
	if n := c.Direction[lcore.IBToRoCE].Drops[full]; n > 0 {
		out.Drops[full] = n
	}
	out.Received = out.Sent + out.Dropped()
	return lcore.PortCounters{c.Direction[lcore.RoCEToIB], out}
}

// EthernetPorts returns all Ethernet ports, in the order of the configuration; none after Close.
func (x *ports) EthernetPorts() (all []EthernetPort) {
	x.gate.whileOpen(func() {
		counters := x.datapath.PortCounters()
		if counters == nil {
			counters = []lcore.PortCounters{ofOnly(x.datapath.Counters())}
		}
		for i, p := range x.ethernet {
			all = append(all, EthernetPort{
				Port:  Port{Name: p.name.String(), MAC: p.mac().String(), MTU: p.port.MTU(), Ethernet: true},
				Stats: p.stats(), Link: p.carriers.state(), Counters: counters[i],
			})
		}
	})
	return all
}
