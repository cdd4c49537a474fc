// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// ethernetPort is an Ethernet port, and what of its frames is the bridge's.
type ethernetPort struct {
	cfg     *config.Config // as it was when the port was opened
	name    config.EthPort // its own
	index   uint8          // that workers and management know it by
	close   teardown
	inForce func() *config.Config
	log     *slog.Logger
	private bool // nobody else can have it

	carriers *carriers

	mu        sync.Mutex // of what controls the port while the bridge runs
	port      *dpdk.Port
	wakes     []*lcore.Worker // that sleep until the port wakes them, by queue
	segments  []*portSegment
	flows     map[vlanGroup]*dpdk.Flow      // of groups of plain UDP, on a port that is shared with the kernel
	received  map[uint16][]tables.GroupAddr // by VLAN: the groups that management wants
	listeners atomic.Pointer[[]*listener]   // of segments, on such a port; never nil once the port is open
}

// A vlanGroup is a group of a segment.
type vlanGroup struct {
	vlan uint16
	tables.GroupAddr
}

// open opens and starts the port.
func (p *ethernetPort) open(pool *dpdk.Mempool, undo *teardown) error {
	if err := p.claim(undo); err != nil {
		return err
	}
	n := len(p.cfg.Workers.LCores)
	port, err := dpdk.OpenPort(driverName(p.name), dpdk.PortConfig{
		Pool: pool, RxQueues: n, TxQueues: n, RxDescs: p.cfg.Workers.RxDescs, TxDescs: p.cfg.Workers.TxDescs,
		MTU: mostMTU(p.ownSegments()), RxInterrupts: wantsWakes(idleOf(&p.cfg.Workers)),
		Promiscuous: p.cfg.Fleet.Name != "", // frames come to the MAC addresses of shards
	})
	if err != nil {
		return err
	}
	p.port = port
	undo.add(port.Close)
	if port.Shared() {
		if err := port.Isolate(true); err != nil {
			return err
		}
	}
	if err := port.Start(); err != nil {
		return err
	}
	undo.add(port.Stop)
	return p.steer(undo)
}

// reopen puts the port on an interface that was deleted and is there again.
func (p *ethernetPort) reopen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.port.Reopen(); err != nil {
		return err
	}
	return p.setWakes()
}

// reopenMember does so with a member of its bond. Workers pause while one takes the place of the other: net_bonding knows
// no change under way. The port is held only for that: to open the other takes time, in which LACP goes on and wakes workers.
func (p *ethernetPort) reopenMember(i int, paused func(f func() error) error) error {
	return p.port.Bond().Reopen(i, func(swap func() error) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return paused(func() error {
			if err := swap(); err != nil {
				return err
			}
			return p.setWakes()
		})
	})
}

// stats returns the port's counters, and what the listener has missed besides; zero where its driver has none.
func (p *ethernetPort) stats() dpdk.Stats {
	s := p.statsOf(p.port)
	for _, l := range p.listening() {
		s.RxMissed += l.lost()
	}
	return s
}

// statsOf returns the counters of the port, or of a member of its bond.
func (p *ethernetPort) statsOf(port *dpdk.Port) dpdk.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := port.Stats()
	if err != nil {
		return dpdk.Stats{RxMissedUnknown: true}
	}
	return s
}

// linkUp is the link as the port's driver has it.
func (p *ethernetPort) linkUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.port.LinkUp()
}

func (p *ethernetPort) mac() frame.MAC { return frame.MAC(p.port.MAC()) }

// driverName is the port as DPDK's drivers name it: of several rings each has a name that the configuration alone knows.
func driverName(p config.EthPort) string {
	if p.Driver == "ring" {
		return p.Driver
	}
	return p.String()
}

// ownSegments are those that were the port's when it was opened.
func (p *ethernetPort) ownSegments() []config.RoCE {
	return slices.DeleteFunc(p.cfg.Segments(), func(r config.RoCE) bool { return r.Port != p.name })
}

// mostMTU is the largest of a segment's.
func mostMTU(segments []config.RoCE) (most int) {
	for _, r := range segments {
		most = max(most, r.MTU)
	}
	return most
}

// ownAddresses are the bridge's own in a segment, with the link-local one.
func (p *ethernetPort) ownAddresses(r *config.RoCE) []netip.Prefix {
	own := append([]netip.Prefix(nil), r.Addresses...)
	return append(own, netip.PrefixFrom(p.mac().LinkLocal(), 64))
}

// learnsReports reports whether groups are learned from hosts' reports: those of older versions are sent to the groups.
func (p *ethernetPort) learnsReports() bool {
	return slices.ContainsFunc(p.inForce().Ranges, func(r config.Range) bool { return r.Reports })
}

// receive makes the port, and the kernel's interface where the port is shared, receive these groups of a segment besides
// those of others and those that management needs; or all groups while groups are learned from reports.
func (p *ethernetPort) receive(vlan uint16, groups []tables.GroupAddr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == nil {
		p.received = p.groupsToIB()
	}
	p.received[vlan] = groups
	macs, all := p.multicastMACs(p.received), p.learnsReports()
	set := p.port.SetMulticast
	if all {
		set = func([][6]byte) (dpdk.MulticastFilter, error) { return p.port.SetAllMulticast() }
	}
	if _, err := set(macs); err != nil {
		return err
	}
	listeners := p.listening()
	if len(listeners) == 0 {
		return nil
	}
	first := listeners[0] // the interface's groups are those of all
	return errors.Join(first.follow(macs), first.followAll(all), p.takePlain(p.received))
}

// steer makes the port receive the bridge's frames: only RoCE where the port is shared with the kernel, else all
// frames, which the workers distinguish. Multicast addresses are filtered either way.
func (p *ethernetPort) steer(undo *teardown) error {
	filter, err := p.port.SetMulticast(p.multicastMACs(p.groupsToIB()))
	if p.learnsReports() {
		filter, err = p.port.SetAllMulticast()
	}
	if err != nil {
		return err
	}
	p.log.Info("ethernet_port", "port", p.port.Name(), "mac", p.mac(), "mtu", p.port.MTU(), "multicast", filter.String(),
		"shared", p.port.Shared())
	if bond := p.port.KernelBond(); bond != "" {
		p.log.Info("ethernet_port", "kernel_bond", bond)
	}
	if r := p.port.Rings(); r.Frames > 0 {
		p.log.Info("ethernet_port", "rings", "of the kernel, for each queue one to receive and one to send", "frames", r.Frames, "mib", r.Bytes>>20)
	}
	if caveat := p.port.Caveat(); caveat != "" {
		p.log.Warn("ethernet_port", "note", caveat)
	}
	if !p.port.Shared() {
		return nil
	}
	return p.share(undo)
}

// groupsToIB are the groups of the configuration that are bridged from the port, by VLAN.
func (p *ethernetPort) groupsToIB() map[uint16][]tables.GroupAddr {
	of, segments := map[uint16][]tables.GroupAddr{}, p.cfg.Segments()
	for _, g := range p.cfg.Groups {
		if g.Direction&config.ToIB != 0 {
			for _, in := range p.cfg.GroupSegments(&g) {
				if r := &segments[in]; r.Port == p.name {
					of[r.VLAN] = append(of[r.VLAN], tables.GroupAddr{IP: g.IP, UDPPort: g.UDPPort})
				}
			}
		}
	}
	return of
}

// multicastMACs are the addresses of groups that are bridged from RoCE, and of groups for neighbours and routers.
func (p *ethernetPort) multicastMACs(bridged map[uint16][]tables.GroupAddr) [][6]byte {
	groups := []netip.Addr{netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")}
	solicited := func(a netip.Addr) {
		if a.Is6() {
			groups = append(groups, frame.SolicitedNode(a))
		}
	}
	for _, r := range p.segments {
		for _, g := range bridged[r.VLAN] {
			groups = append(groups, g.IP)
			if r.V1 && g.IP.Is4() && g.UDPPort == 0 { // whose frames go to the address of the group's IPv6 form (Annex A16)
				groups = append(groups, netip.AddrFrom16(ib.MGIDRoCEv1(g.IP)))
			}
		}
		for _, own := range p.ownAddresses(&r.RoCE) {
			solicited(own.Addr())
		}
	}
	for _, x := range p.inForce().Hosts {
		if x.Side == config.SideIB && x.IP6.IsValid() {
			solicited(x.IP6)
		}
	}
	return unique(groups)
}

// unique maps groups to MAC addresses, each once: many groups share one.
func unique(groups []netip.Addr) [][6]byte {
	seen := map[frame.MAC]bool{}
	var macs [][6]byte
	for _, g := range groups {
		if m := frame.GroupMAC(g); !seen[m] {
			seen[m] = true
			macs = append(macs, m)
		}
	}
	return macs
}

// queues are those of all workers.
func (p *ethernetPort) queues() (all []uint16) {
	for i := range p.cfg.Workers.LCores {
		all = append(all, uint16(i))
	}
	return all
}

// flowVLAN is the VLAN id of flow rules. net_tap does not match VLAN IDs: it takes the frames of all VLANs.
func (p *ethernetPort) flowVLAN(vlan uint16) uint16 {
	if p.name.Kind() == "tap" {
		return 0
	}
	return vlan
}

// plainRule takes a group of plain UDP, spread over the workers by source address as RoCEv2 is.
func (p *ethernetPort) plainRule(g vlanGroup) dpdk.Rule {
	all := p.queues()
	return dpdk.Rule{Match: dpdk.MatchUDP, IP: g.IP, UDPPort: g.UDPPort, Queues: all, RSS: len(all) > 1, VLAN: g.vlan}
}

// takePlain takes those of these groups that are plain UDP from the kernel, and no others. The next call retries what
// failed.
func (p *ethernetPort) takePlain(groups map[uint16][]tables.GroupAddr) error {
	wanted := map[vlanGroup]bool{}
	var errs []error
	for _, r := range p.segments {
		for _, a := range groups[r.VLAN] {
			g := vlanGroup{p.flowVLAN(r.VLAN), a}
			if wanted[g] = true; g.UDPPort == 0 || p.flows[g] != nil {
				continue
			}
			if err := p.takeGroup(g); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for g, flow := range p.flows {
		if wanted[g] {
			continue
		}
		if err := flow.Destroy(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(p.flows, g)
	}
	return errors.Join(errs...)
}

func (p *ethernetPort) takeGroup(g vlanGroup) error {
	flow, err := p.port.CreateFlow(p.plainRule(g)) // the rules go with the port
	if err != nil {
		return fmt.Errorf("group %v: %w", g.GroupAddr, err)
	}
	if p.flows == nil {
		p.flows = map[vlanGroup]*dpdk.Flow{}
	}
	p.flows[g] = flow
	return nil
}
