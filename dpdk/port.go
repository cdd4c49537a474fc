// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"fmt"
	"net"
	"sync"
)

// maxQueues is the most queues a port may have here, each way.
const maxQueues = C.DPDK_MAX_QUEUES

// etherOverhead is what a frame may have beyond its MTU: Ethernet header and one 802.1Q tag.
const etherOverhead = 14 + 4

// PortConfig says how to set up a port. Zeros take the default.
type PortConfig struct {
	Pool               *Mempool // where received frames go; each must fit in one mbuf
	RxQueues, TxQueues int      // 1
	RxDescs, TxDescs   int      // 1024; rounded to what the PMD can
	MTU                int      // af_packet: the interface's; others: 1500
	Promiscuous        bool
	RxInterrupts       bool // for RxWake, of ports that have them
}

// Port is an Ethernet device.
type Port struct {
	name   string // as the user wrote it
	device string // as DPDK calls it
	bus    string // where DPDK has it
	id     C.uint16_t
	config PortConfig
	plan   portPlan
	mac    [6]byte
	closed bool
	// allMulticast: SetAllMulticast has it receive all multicast frames.
	allMulticast bool
	rings        *RingPort // of a "ring" port
	netdev       int       // index of the kernel's interface, where the device has one; 0: none
	sockets      []int     // the PMD's packet sockets, by queue
	kernelCounters
	before Stats // of what Reopen has replaced
	bond   *Bond // of its members; nil: it has none
}

// hotplug guards the EAL's list of devices.
var hotplug struct {
	sync.Mutex
	next int // numbers the virtual devices of this process
}

// OpenPort plugs in and configures the port of that name; see the package comment for the names. It is stopped:
// Isolate comes before Start, flow rules after.
func OpenPort(name string, config PortConfig) (*Port, error) {
	eal, err := theEAL(fmt.Sprintf("port %q", name))
	if err != nil {
		return nil, err
	}
	p, err := openPort(eal, name, config)
	if err != nil {
		return nil, portError(name, "%w", err)
	}
	return p, nil
}

func openPort(eal *EAL, name string, config PortConfig) (*Port, error) {
	kind, arg, err := parsePortName(name)
	if err != nil {
		return nil, err
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	if kind == &schemeBond {
		return openBond(eal, name, arg, config)
	}
	plan, err := kind.plan(arg, &config)
	if err != nil {
		return nil, err
	}
	if room := config.Pool.room - Headroom; room < plan.mbufRoom {
		return nil, fmt.Errorf("mbufs hold %d bytes, and with MTU %d this port needs %d; make the mempool with a data room of at least %d",
			room, plan.mtu, plan.mbufRoom, plan.mbufRoom+Headroom)
	}
	if err := driverThere(kind.driver); err != nil {
		return nil, err
	}
	p := &Port{name: name, config: config, plan: plan}
	clearLog()
	if err := p.plug(eal, kind); err != nil {
		return nil, err
	}
	if err := p.setUp(); err != nil {
		p.unplug()
		return nil, err
	}
	return p, nil
}

// complete fills in the defaults and checks what holds for every port.
func (c *PortConfig) complete() error {
	for _, d := range []struct {
		field           *int
		otherwise, most int
		what            string
	}{
		{&c.RxQueues, 1, maxQueues, "Rx queues"}, {&c.TxQueues, 1, maxQueues, "Tx queues"},
		{&c.RxDescs, 1024, 32768, "Rx descriptors"}, {&c.TxDescs, 1024, 32768, "Tx descriptors"},
	} {
		if *d.field == 0 {
			*d.field = d.otherwise
		}
		if *d.field < 0 || *d.field > d.most {
			return fmt.Errorf("%d %s: use 1 to %d", *d.field, d.what, d.most)
		}
	}
	if c.Pool == nil || c.Pool.p == nil {
		return fmt.Errorf("it needs a mempool to receive into")
	}
	if c.MTU != 0 && (c.MTU < 68 || c.MTU > 65535-etherOverhead) {
		return fmt.Errorf("MTU %d: use 68 to %d", c.MTU, 65535-etherOverhead)
	}
	return nil
}

// plug makes the device appear and finds its id.
func (p *Port) plug(eal *EAL, kind *scheme) error {
	hotplug.Lock()
	defer hotplug.Unlock()
	switch kind {
	case &schemeRing:
		return p.plugRings()
	case &schemeMlx5:
		return p.plugPCI(eal)
	}
	if p.plan.waits {
		return p.plugWaiting()
	}
	p.device = fmt.Sprintf("%s%d", kind.driver, hotplug.next)
	hotplug.next++
	C.dpdk_fanout_begin()
	err := p.probe("vdev", p.plan.args)
	switch {
	case err == nil:
		p.countMissed()
		return nil
	case p.plan.needs.missing():
		return fmt.Errorf("%w; the process needs %s", why(err), p.plan.needs)
	case p.plan.remote != "":
		return fmt.Errorf("%w; to share %s, the kernel needs these modules: modprobe -a sch_ingress sch_multiq cls_flower "+
			"act_mirred act_skbedit act_gact", why(err), p.plan.remote)
	}
	return why(err)
}

// probe plugs the device in and looks up its id.
func (p *Port) probe(bus, args string) error {
	err := withCStrings([]string{bus, p.device, args}, func(c []*C.char) C.int { return C.dpdk_plug(c[0], c[1], c[2]) })
	if err != nil {
		return err
	}
	p.bus = bus
	return p.find()
}

func (p *Port) find() error {
	return withCString(p.device, func(device *C.char) C.int { return C.dpdk_port_by_name(device, &p.id) })
}

// setUp compares the configuration with what the device can, and applies it.
func (p *Port) setUp() error {
	var info C.struct_dpdk_port_info
	if err := errno(C.dpdk_port_info(p.id, &info)); err != nil {
		return why(err)
	}
	p.netdev = int(info.netdev)
	if p.config.RxQueues > int(info.max_rx_queues) || p.config.TxQueues > int(info.max_tx_queues) {
		return fmt.Errorf("%d Rx and %d Tx queues: this port has at most %d and %d",
			p.config.RxQueues, p.config.TxQueues, info.max_rx_queues, info.max_tx_queues)
	}
	if p.plan.tellMTU && p.plan.mtu > int(info.max_mtu) {
		return fmt.Errorf("MTU %d: this port can at most %d", p.plan.mtu, info.max_mtu)
	}
	if err := p.configure(); err != nil {
		return err
	}
	if p.mac == [6]byte{} { // not opened again: it keeps its address
		p.mac = ownMAC(p.id, &p.plan, info)
	}
	if !p.config.Promiscuous {
		return nil
	}
	if err := errno(C.dpdk_port_promiscuous(p.id, true)); err != nil {
		return fmt.Errorf("promiscuous mode: %w", why(err))
	}
	return nil
}

func (p *Port) configure() error {
	conf := C.struct_dpdk_port_conf{
		pool:      p.config.Pool.p,
		rx_queues: C.uint16_t(p.config.RxQueues), tx_queues: C.uint16_t(p.config.TxQueues),
		rx_descs: C.uint16_t(p.config.RxDescs), tx_descs: C.uint16_t(p.config.TxDescs),
		rss: C.bool(p.config.RxQueues > 1 && p.bond == nil), rx_interrupts: C.bool(p.config.RxInterrupts && p.plan.rxWakes == rxWakesByInterrupt),
	}
	switch {
	case p.plan.tellMTU:
		conf.mtu = C.uint16_t(p.plan.mtu)
	case p.bond != nil: // see its start
		conf.mtu = C.uint16_t(min(p.plan.mtu, defaultMTU))
	}
	if err := errno(C.dpdk_port_configure(p.id, &conf)); err != nil {
		return why(err)
	}
	if p.plan.netdev == "" {
		return nil
	}
	err := withCString(p.plan.netdev, func(name *C.char) C.int { return C.dpdk_netdev_set_mtu(name, C.int(p.plan.mtu)) })
	if err != nil {
		return fmt.Errorf("set MTU %d of %s: %w", p.plan.mtu, p.plan.netdev, err)
	}
	return nil
}

// ownMAC returns the port's own address. Devices made of software may have none: they get a locally administered
// one. A tap has that of its kernel end, which must not hear its own address from the other end of the wire; or that
// of the interface it shares, as any port that it shares with the kernel.
func ownMAC(id C.uint16_t, plan *portPlan, info C.struct_dpdk_port_info) (mac [6]byte) {
	for i := range mac {
		mac[i] = byte(info.mac[i])
	}
	if plan.waits {
		mac = plan.mac
	}
	switch {
	case mac == [6]byte{}:
		mac = [6]byte{0x02, 0xca, 0x05, 0xe0, byte(id >> 8), byte(id)}
	case plan.netdev != "" && plan.remote == "":
		mac[5] ^= 1
	}
	return mac
}

// ID is DPDK's port id, for rte_eth_rx_burst and rte_eth_tx_burst.
func (p *Port) ID() uint16 { return uint16(p.id) }

// Name is the name that OpenPort was given.
func (p *Port) Name() string { return p.name }

// MAC is the address that frames to the bridge carry.
func (p *Port) MAC() [6]byte { return p.mac }

// MTU is the largest IP packet of a frame, in bytes.
func (p *Port) MTU() int { return p.plan.mtu }

// Shared reports whether the kernel uses the device too: an isolated port leaves it every frame that no rule takes.
func (p *Port) Shared() bool { return p.plan.remote != "" || p.bus == "pci" }

// KernelInterface is the kernel's end of a shared port.
func (p *Port) KernelInterface() (*net.Interface, error) {
	var netdev *net.Interface
	var err error
	switch {
	case !p.Shared():
		return nil, portError(p.name, "the kernel has no part in it")
	case p.plan.remote != "":
		netdev, err = net.InterfaceByName(p.plan.remote)
	case p.netdev == 0:
		return nil, portError(p.name, "the kernel has no network interface for it: modprobe mlx5_core, or see its own log")
	default:
		netdev, err = net.InterfaceByIndex(p.netdev)
	}
	if err != nil {
		return nil, portError(p.name, "the kernel's interface: %w; is it in this network namespace?", err)
	}
	return netdev, nil
}

// Start lets frames through.
func (p *Port) Start() error {
	clearLog()
	if p.bond != nil {
		if err := p.bond.start(); err != nil {
			return portError(p.name, "start: %w", err)
		}
		return nil
	}
	if err := errno(C.dpdk_port_start(p.id)); err != nil {
		return portError(p.name, "start: %w", why(err))
	}
	return nil
}

// Stop ends the traffic. No worker may be in a burst call then.
func (p *Port) Stop() error {
	p.stopCounting()
	if p.bond != nil {
		p.bond.stop()
	}
	clearLog()
	if err := errno(C.dpdk_port_stop(p.id)); err != nil {
		return portError(p.name, "stop: %w", why(err))
	}
	return nil
}

// Close stops the port and takes the device away; the mbufs that the PMD held go back to their pool.
func (p *Port) Close() error {
	if p.closed {
		return nil
	}
	if p.config.Promiscuous {
		C.dpdk_port_promiscuous(p.id, false) // a kernel interface would stay so; no harm where it cannot be
	}
	if err := p.Stop(); err != nil {
		return err
	}
	if err := p.unplug(); err != nil {
		return portError(p.name, "close: %w", err)
	}
	return nil
}

func (p *Port) unplug() error {
	if p.bond != nil {
		p.closed = true
		return p.bond.close()
	}
	hotplug.Lock()
	defer hotplug.Unlock()
	return p.unplugLocked()
}

// unplugLocked is unplug while the caller has the lock.
func (p *Port) unplugLocked() error {
	p.closed = true
	clearLog()
	err := errno(C.dpdk_port_close(p.id))
	if err == nil {
		err = withCStrings([]string{p.bus, p.device}, func(c []*C.char) C.int { return C.dpdk_unplug(c[0], c[1]) })
	}
	if p.rings != nil {
		p.rings.free()
	}
	if err != nil {
		return why(err)
	}
	return nil
}

// LinkUp reports whether there is somebody at the other end.
func (p *Port) LinkUp() bool {
	var up C.bool
	return !p.plan.waits && errno(C.dpdk_port_link(p.id, &up)) == nil && bool(up)
}

// Rx takes up to len(burst) received frames from a queue, for tests and tools. They are the caller's.
func (p *Port) Rx(queue int, burst []Mbuf) int {
	return int(C.dpdk_port_rx(p.id, C.uint16_t(queue), mbufArray(burst), C.uint(len(burst))))
}

// Tx sends the first frames of burst, as many as the queue takes, for tests and tools. Those are the port's; the
// others stay the caller's.
func (p *Port) Tx(queue int, burst []Mbuf) int {
	return int(C.dpdk_port_tx(p.id, C.uint16_t(queue), mbufArray(burst), C.uint(len(burst))))
}
