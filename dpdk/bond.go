// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
// #include "bond.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
)

// ErrNoLinkYet is in the error of Bond.Set while the member's driver has no link, and for a moment after it got one.
var ErrNoLinkYet = errors.New("its driver has no link yet")

// A Bond is a port that consists of others: net_bonding's. Which of them carry frames is the caller's to say, from their
// carriers or by LACP: after Start none does.
type Bond struct {
	port    *Port
	mode    string
	members []*Port
	missing []string  // names of those whose interfaces were not there
	macs    [][6]byte // as the members' interfaces had them
	mtus    []int     // likewise, of those that are ours to keep; 0: of others
	c       *C.struct_dpdk_bond
	slow    *os.File // the eventfd
	came    chan struct{}
	ended   sync.WaitGroup
}

// Bond returns the bond that the port is; nil: it is none.
func (p *Port) Bond() *Bond { return p.bond }

// Mode is the word after "bond:".
func (b *Bond) Mode() string { return b.mode }

// Members returns the ports of the bond, in the order of their names.
func (b *Bond) Members() []*Port { return b.members }

// Missing names the ports whose interfaces were not there when the bond was opened: it goes on without them.
func (b *Bond) Missing() []string { return b.missing }

// planBond only splits the name: each member has a plan of its own.
func planBond(string, *PortConfig) (portPlan, error) { return portPlan{}, nil }

// parseBond splits what stands after "bond:".
func parseBond(arg string) (mode string, members []string, err error) {
	parts := strings.Split(arg, ",")
	mode, members = parts[0], parts[1:]
	if mode != "active-backup" && mode != "lacp" || len(members) < 2 || len(members) > C.DPDK_BOND_MEMBERS {
		return "", nil, fmt.Errorf("%q is no bond; write it as %s, of 2 to %d ports", arg, formBond, C.DPDK_BOND_MEMBERS)
	}
	for _, m := range members {
		kind, _, err := parsePortName(m)
		if err != nil {
			return "", nil, err
		}
		if kind.name != "af_packet" && kind.name != "tap" {
			return "", nil, fmt.Errorf("a port of %s cannot be in a bond; use %s or tap:NEW-INTERFACE", kind.name, formAFPacket)
		}
	}
	return mode, members, nil
}

func openBond(eal *EAL, name, arg string, config PortConfig) (*Port, error) {
	mode, names, err := parseBond(arg)
	if err != nil {
		return nil, err
	}
	if err := driverThere("net_bond"); err != nil {
		return nil, err
	}
	b := &Bond{mode: mode, came: make(chan struct{}, 1)}
	for i, member := range names {
		err := b.open(eal, member, config)
		if errors.Is(err, ErrNoInterface) && len(b.missing) < len(names)-1 {
			b.missing = append(b.missing, names[i])
		} else if err != nil {
			return nil, errors.Join(fmt.Errorf("member %s: %w", member, err), b.closeMembers())
		}
	}
	first := b.members[0]
	p := &Port{name: name, bus: "vdev", config: config, bond: b, plan: portPlan{mtu: first.plan.mtu, tellMTU: first.plan.tellMTU, rxWakes: first.plan.rxWakes, misses: first.plan.misses}}
	b.port = p
	for _, m := range b.members {
		p.plan.mtu = min(p.plan.mtu, m.plan.mtu)
	}
	p.config.Promiscuous = true // the other end may send groups, and slow protocols', to any member: net_af_packet has nothing less
	if err := p.plugBond(); err != nil {
		return nil, errors.Join(err, b.closeMembers())
	}
	if err := p.setUp(); err != nil {
		return nil, errors.Join(err, p.unplug())
	}
	p.mac = first.mac
	return p, nil
}

// open opens a member.
func (b *Bond) open(eal *EAL, name string, config PortConfig) error {
	if err := setUpInterface(name); err != nil {
		return err
	}
	m, err := openPort(eal, name, config)
	if err != nil {
		return err
	}
	b.members, b.macs, b.mtus = append(b.members, m), append(b.macs, [6]byte{}), append(b.mtus, 0)
	if m.plan.remote != "" {
		return fmt.Errorf("a tap with remote= cannot be in a bond; use af_packet:%s", m.plan.remote)
	}
	return b.remember(len(b.members) - 1)
}

// setUpInterface sets the interface of an af_packet port up, as the kernel's bond does with its own: what is not set up has
// no carrier to wait for. That it is not there is for others to tell.
func setUpInterface(name string) error {
	kind, arg, _ := strings.Cut(name, ":")
	link, err := netlink.LinkByName(arg)
	if kind != "af_packet" || err != nil {
		return nil
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("ip link set %s up: %w", arg, err)
	}
	return nil
}

// remember notes what a member's interface is to have again.
func (b *Bond) remember(i int) error {
	m := b.members[i]
	var info C.struct_dpdk_port_info
	if err := errno(C.dpdk_port_info(m.id, &info)); err != nil {
		return why(err)
	}
	for j := range b.macs[i] {
		b.macs[i][j] = byte(info.mac[j])
	}
	kind, arg, _ := strings.Cut(m.name, ":")
	if link, err := netlink.LinkByName(arg); err == nil && kind == "af_packet" {
		b.mtus[i] = link.Attrs().MTU
	}
	return nil
}

// plugBond makes the bond of its members.
func (p *Port) plugBond() error {
	hotplug.Lock()
	defer hotplug.Unlock()
	p.device = fmt.Sprintf("net_bonding%d", hotplug.next)
	hotplug.next++
	ids := make([]C.uint16_t, len(p.bond.members))
	for i, m := range p.bond.members {
		ids[i] = m.id
	}
	clearLog()
	err := withCString(p.device, func(name *C.char) C.int {
		return C.dpdk_bond_create(name, &ids[0], C.uint(len(ids)), &p.bond.c, &p.id)
	})
	if err != nil {
		return why(err)
	}
	return nil
}

// start starts the bond with its members. net_bonding sets its MTU at each, and net_af_packet lets a bond have no more
// than 1500: the interfaces get theirs back. The bond's is not used, as that of net_af_packet is not.
func (b *Bond) start() error {
	if err := errno(C.dpdk_port_start(b.port.id)); err != nil {
		return why(err)
	}
	for i, m := range b.members {
		if err := b.restoreMTU(i); err != nil {
			return fmt.Errorf("MTU %d of %s: %w", b.mtus[i], m.name, err)
		}
	}
	if err := errno(C.dpdk_bond_listen(b.c, C.uint16_t(b.port.config.RxQueues))); err != nil {
		return fmt.Errorf("listen to its members: %w", why(err))
	}
	fd, err := syscall.Dup(int(C.dpdk_bond_slow_fd(b.c)))
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	b.slow = os.NewFile(uintptr(fd), "slow protocols")
	b.ended.Go(b.tellSlow)
	return nil
}

func (b *Bond) restoreMTU(i int) error {
	_, arg, _ := strings.Cut(b.members[i].name, ":")
	if b.mtus[i] == 0 {
		return nil
	}
	return withCString(arg, func(name *C.char) C.int { return C.dpdk_netdev_set_mtu(name, C.int(b.mtus[i])) })
}

// tellSlow has SlowCame tell what the eventfd does, until stop.
func (b *Bond) tellSlow() {
	var count [8]byte
	for {
		if _, err := b.slow.Read(count[:]); err != nil { // it is closed
			return
		}
		select {
		case b.came <- struct{}{}:
		default:
		}
	}
}

// stop ends what runs beside the workers.
func (b *Bond) stop() {
	for _, m := range b.members {
		m.stopCounting()
	}
	if b.slow != nil {
		b.slow.Close()
		b.ended.Wait()
		b.slow = nil
	}
}

// close takes the bond away, and then its members. Their interfaces get their addresses back.
func (b *Bond) close() error {
	hotplug.Lock()
	clearLog()
	err := withCString(b.port.device, func(name *C.char) C.int { return C.dpdk_bond_free(b.c, name) })
	if err != nil {
		err = why(err)
	}
	hotplug.Unlock()
	return errors.Join(err, b.closeMembers())
}

func (b *Bond) closeMembers() error {
	var errs []error
	for i, m := range b.members {
		if m.closed { // Reopen has failed
			continue
		}
		var mac [6]C.uint8_t
		for j, octet := range b.macs[i] {
			mac[j] = C.uint8_t(octet)
		}
		C.dpdk_port_set_mac(m.id, &mac[0]) // an interface that is gone has none to get back
		_ = b.restoreMTU(i)                // likewise
		errs = append(errs, m.unplug())
	}
	return errors.Join(errs...)
}

// Set says whether frames are received from a member, and whether it is among those that send. Frames that come to one
// that does not collect are dropped and counted. The error is an ErrNoLinkYet while that has to be tried again.
func (b *Bond) Set(member int, collect, distribute bool) error {
	err := errno(C.dpdk_bond_set(b.c, C.uint(member), C.bool(collect), C.bool(distribute)))
	if errors.Is(err, syscall.EAGAIN) {
		return portError(b.port.name, "member %s: %w", b.members[member].name, ErrNoLinkYet)
	}
	return err
}

// Drained counts how often workers have found all of a member's queues empty: when it has grown by two, they have taken
// what was there.
func (b *Bond) Drained(member int) uint64 { return uint64(C.dpdk_bond_drained(b.c, C.uint(member))) }

// BondCounters count frames that a member of a bond received and that no worker has, nor another counter.
type BondCounters struct {
	Inactive uint64 // the member does not collect
	SlowLost uint64 // of slow protocols: too many came at once, or could not be sent
}

// Count reads a member's counters.
func (b *Bond) Count(member int) BondCounters {
	var c C.struct_dpdk_bond_counters
	C.dpdk_bond_count(b.c, C.uint(member), &c)
	return BondCounters{uint64(c.inactive), uint64(c.slow_lost)}
}

// SlowCame has a value after frames of slow protocols have come (IEEE 802.3 Annex 57A).
func (b *Bond) SlowCame() <-chan struct{} { return b.came }

// TakeSlow returns the next frame of a slow protocol, and the member that it came to; nil: there is none. One goroutine only.
func (b *Bond) TakeSlow() (member int, frame []byte) {
	var from C.uint
	m := Mbuf{C.dpdk_bond_take_slow(b.c, &from)}
	if m.p == nil {
		return 0, nil
	}
	defer m.Free()
	return int(from), m.Bytes()
}

// SendSlow has the next worker that polls send a frame by one member.
func (b *Bond) SendSlow(member int, frame []byte) error {
	m, err := b.port.config.Pool.Alloc(frame)
	if err != nil {
		return err
	}
	if err := errno(C.dpdk_bond_send_slow(b.c, C.uint(member), m.p)); err != nil {
		m.Free()
		return portError(b.port.name, "member %s: send a frame of %d bytes: %w", b.members[member].name, len(frame), err)
	}
	return nil
}

// stats adds up the members' counters.
func (b *Bond) stats() (Stats, error) {
	var all Stats
	for _, m := range b.members {
		s, err := m.Stats()
		if err != nil {
			return Stats{}, err
		}
		all.add(&s)
	}
	return all, nil
}

// rxWake is by all members; one that cannot wake anybody keeps the bond from it.
func (b *Bond) rxWake(queue int) (RxWake, error) {
	var all RxWake
	for _, m := range b.members {
		r, err := m.RxWake(queue)
		if err != nil {
			return RxWake{}, err
		}
		if r.Armed { // net_bonding enables no interrupts
			return RxWake{}, portError(b.port.name, "%w: member %s", ErrNoRxWake, m.name)
		}
		all.FDs = append(all.FDs, r.FDs...)
	}
	return all, nil
}
