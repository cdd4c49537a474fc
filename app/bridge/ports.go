// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"causeway/app/bridge/link"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// ports are the Ethernet ports. A reload opens and closes some (ports_change.go).
type ports struct {
	opener   opener
	gate     *gate
	again    chan struct{} // has a value after each link_up
	datapath *lcore.Datapath
	wakes    bool // they are to wake workers

	access   sync.Mutex
	ethernet []*ethernetPort // in the order of the configuration; replaced as a whole
	past     dpdk.Stats      // what those had counted that a reload has closed
}

// list returns all ports, in the order of the configuration. Any goroutine may call it.
func (x *ports) list() []*ethernetPort {
	x.access.Lock()
	defer x.access.Unlock()
	return x.ethernet
}

// named returns a port that is open; nil: it is not.
func (x *ports) named(name config.EthPort) *ethernetPort {
	for _, p := range x.list() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// macs are the ports' addresses, by index; zero where there is none.
func (x *ports) macs() (all [][6]byte) {
	for _, p := range x.list() {
		all = append(all, make([][6]byte, max(0, int(p.index)+1-len(all)))...)
		all[p.index] = p.mac()
	}
	return all
}

// ids are those that DPDK has for the ports.
func (x *ports) ids() (all []uint16) {
	for _, p := range x.list() {
		all = append(all, p.port.ID())
	}
	return all
}

// place is a place as management has it. That of a port that is not open yet is none's.
func (x *ports) place(at config.Place) manage.Place {
	if p := x.named(at.Port); p != nil {
		return manage.Place{Port: p.index, VLAN: at.VLAN}
	}
	return manage.Place{Port: lcore.MaxPorts, VLAN: at.VLAN}
}

// placesOf are numbers by places as the configuration has them, by those of management. A port that has gone is left out.
func (x *ports) placesOf(by map[manage.Place]uint8) map[config.Place]uint8 {
	numbers := map[config.Place]uint8{}
	for _, p := range x.list() {
		for at, n := range by {
			if at.Port == p.index {
				numbers[config.Place{Port: p.name, VLAN: at.VLAN}] = n
			}
		}
	}
	return numbers
}

// nameOf names the port of a frame, by its index; "": there is one.
func (x *ports) nameOf(i uint8) string {
	all := x.list()
	at := slices.IndexFunc(all, func(p *ethernetPort) bool { return p.index == i })
	if len(all) == 1 || at < 0 {
		return ""
	}
	return all[at].name.String()
}

// anyShared reports whether a port is shared with the kernel.
func (x *ports) anyShared() bool {
	return slices.ContainsFunc(x.list(), func(p *ethernetPort) bool { return p.port.Shared() })
}

// up reports whether frames can pass all ports.
func (x *ports) up() bool {
	return !slices.ContainsFunc(x.list(), func(p *ethernetPort) bool { return !p.carriers.up() })
}

// state returns that of the first port that is not up.
func (x *ports) state() link.State {
	for _, p := range x.list() {
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
	for _, p := range x.list() {
		own := slices.DeleteFunc(slices.Clone(segments), func(r config.RoCE) bool { return r.Port != p.name || p.has(r.VLAN) })
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

// stats sums up the counters of all ports, with those that are closed.
func (x *ports) stats() dpdk.Stats {
	x.access.Lock()
	sum, all := x.past, x.ethernet
	x.access.Unlock()
	for _, p := range all {
		addStats(&sum, p.stats())
	}
	return sum
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
	Number   uint8 // by which copies of frames name it; a port keeps it, and the next may have it when that is closed
	Stats    dpdk.Stats
	Link     link.State
	Counters lcore.PortCounters // of RoCE; towards RoCE, received is what was routed to the port
}

// EthernetPorts returns all Ethernet ports, in the order of the configuration; none after Close.
func (x *ports) EthernetPorts() (all []EthernetPort) {
	x.gate.whileOpen(func() {
		counters := x.datapath.PortCounters()
		for _, p := range x.list() {
			all = append(all, EthernetPort{
				Port:   Port{Name: p.name.String(), MAC: p.mac().String(), MTU: p.port.MTU(), Ethernet: true},
				Number: p.index, Stats: p.stats(), Link: p.carriers.state(), Counters: counters[p.index],
			})
		}
	})
	return all
}
