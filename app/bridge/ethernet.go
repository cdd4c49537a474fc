// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// ethernetPort is the Ethernet port, and what of its frames is the bridge's.
type ethernetPort struct {
	cfg     *config.Config // as it was at the start
	inForce func() *config.Config
	log     *slog.Logger
	private bool // nobody else can have it

	mu        sync.Mutex // of what controls the port while the bridge runs
	port      *dpdk.Port
	wakes     []*lcore.Worker            // that sleep until the port wakes them, by queue
	listeners []*listener                // on a port that is shared with the kernel, one for each segment
	flows     map[vlanGroup]*dpdk.Flow   // there, of groups of plain UDP
	received  map[int][]tables.GroupAddr // by segment: the groups that management wants
}

// A vlanGroup is a group of a segment.
type vlanGroup struct {
	vlan uint16
	tables.GroupAddr
}

// open opens and starts the port.
func (p *ethernetPort) open(pool *dpdk.Mempool, undo *teardown) error {
	if !p.private {
		if err := claimPort(p.cfg, undo); err != nil {
			return err
		}
	}
	n := len(p.cfg.Workers.LCores)
	port, err := dpdk.OpenPort(p.cfg.RoCE.Port.String(), dpdk.PortConfig{
		Pool: pool, RxQueues: n, TxQueues: n, RxDescs: p.cfg.Workers.RxDescs, TxDescs: p.cfg.Workers.TxDescs,
		MTU: mostMTU(p.cfg), RxInterrupts: wantsWakes(idleOf(&p.cfg.Workers)),
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

// reopen puts the port, or a member of its bond, on an interface that was deleted and is there again.
func (p *ethernetPort) reopen(reopen func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := reopen(); err != nil {
		return err
	}
	return p.setWakes()
}

// stats returns the port's counters, and what the listener has missed besides; zero where its driver has none.
func (p *ethernetPort) stats() dpdk.Stats {
	s := p.statsOf(p.port)
	for _, l := range p.listeners {
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

// mostMTU is that of the port: the largest of a segment's.
func mostMTU(cfg *config.Config) (most int) {
	for _, r := range cfg.Segments() {
		most = max(most, r.MTU)
	}
	return most
}

// ownAddresses are the bridge's own in a segment, with the link-local one.
func (p *ethernetPort) ownAddresses(r *config.RoCE) []netip.Prefix {
	own := append([]netip.Prefix(nil), r.Addresses...)
	return append(own, netip.PrefixFrom(p.mac().LinkLocal(), 64))
}

// segments are the workers' part of the configuration's.
func (p *ethernetPort) segments() (all []lcore.Segment) {
	var bound []manage.Segment
	for _, r := range p.cfg.Segments() {
		bound = append(bound, manage.Segment{Bound: r.PKey})
	}
	for _, r := range p.cfg.Segments() {
		s := lcore.Segment{
			VLAN: r.VLAN, RoCEMTU: r.IBMTU.Bytes(), Versions: versions(&r), TTL: r.TTL, Addresses: p.ownAddresses(&r), Bound: r.PKey != 0,
		}
		if s.Bound {
			s.Partition = manage.PartitionOf(r.PKey, p.cfg.IB.PKey, bound)
		}
		all = append(all, s)
	}
	return all
}

// learnsReports reports whether groups are learned from hosts' reports: those of older versions are sent to the groups.
func (p *ethernetPort) learnsReports() bool {
	return slices.ContainsFunc(p.inForce().Ranges, func(r config.Range) bool { return r.Reports })
}

// receive makes the port, and the kernel's interface where the port is shared, receive these groups of a segment besides
// those of others and those that management needs; or all groups while groups are learned from reports.
func (p *ethernetPort) receive(segment int, groups []tables.GroupAddr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == nil {
		p.received = p.groupsToIB()
	}
	p.received[segment] = groups
	macs, all := p.multicastMACs(p.received), p.learnsReports()
	set := p.port.SetMulticast
	if all {
		set = func([][6]byte) (dpdk.MulticastFilter, error) { return p.port.SetAllMulticast() }
	}
	if _, err := set(macs); err != nil {
		return err
	}
	if len(p.listeners) == 0 {
		return nil
	}
	first := p.listeners[0] // the interface's groups are those of all
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

// share takes RoCE from the frames of the kernel's interface by flow rules, and listens there for management's frames.
// The bridge needs all of them: each failure is an error.
func (p *ethernetPort) share(undo *teardown) error {
	netdev, err := p.port.KernelInterface()
	if err != nil {
		return err
	}
	rules := p.rules()
	for _, r := range rules {
		if _, err := p.port.CreateFlow(r); err != nil { // the rules go with the port
			return err
		}
	}
	if err := p.takePlain(p.groupsToIB()); err != nil {
		return err
	}
	for _, r := range p.cfg.Segments() {
		if err := p.listen(netdev, &r, undo); err != nil {
			return err
		}
	}
	p.log.Info("port_shared", "interface", netdev.Name, "flow_rules", len(rules), "note", "RoCE is the bridge's, the rest the kernel's")
	return nil
}

// listen listens for management's frames of a segment.
func (p *ethernetPort) listen(netdev *net.Interface, r *config.RoCE, undo *teardown) error {
	l, err := listen(netdev, r.VLAN, p.port.MTU(), p.learnsReports(), p.multicastMACs(p.groupsToIB()))
	if err != nil {
		return err
	}
	p.listeners = append(p.listeners, l)
	undo.add(func() error {
		if n := l.lost(); n > 0 {
			p.log.Warn("frames_missed", "interface", netdev.Name, "frames", n)
		}
		return l.close()
	})
	return nil
}

// groupsToIB are the groups of the configuration that are bridged from RoCE, by segment.
func (p *ethernetPort) groupsToIB() map[int][]tables.GroupAddr {
	of := map[int][]tables.GroupAddr{}
	for _, g := range p.cfg.Groups {
		if g.Direction&config.ToIB != 0 {
			in, _ := p.cfg.SegmentOf(g.PKey)
			of[in] = append(of[in], tables.GroupAddr{IP: g.IP, UDPPort: g.UDPPort})
		}
	}
	return of
}

// multicastMACs are the addresses of groups that are bridged from RoCE, and of groups for neighbours and routers.
func (p *ethernetPort) multicastMACs(bridged map[int][]tables.GroupAddr) [][6]byte {
	groups := []netip.Addr{netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")}
	solicited := func(a netip.Addr) {
		if a.Is6() {
			groups = append(groups, frame.SolicitedNode(a))
		}
	}
	for i, r := range p.cfg.Segments() {
		for _, g := range bridged[i] {
			groups = append(groups, g.IP)
			if r.V1 && g.IP.Is4() && g.UDPPort == 0 { // whose frames go to the address of the group's IPv6 form (Annex A16)
				groups = append(groups, netip.AddrFrom16(ib.MGIDRoCEv1(g.IP)))
			}
		}
		for _, own := range p.ownAddresses(&r) {
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
	if p.cfg.RoCE.Port.Kind() == "tap" {
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
func (p *ethernetPort) takePlain(groups map[int][]tables.GroupAddr) error {
	wanted := map[vlanGroup]bool{}
	var errs []error
	for i, r := range p.cfg.Segments() {
		for _, a := range groups[i] {
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

// rules take RoCEv2, spread over the workers by source address, and RoCEv1, on the first queue, whatever the
// destination. Workers drop by name what is not the bridge's. The listener has all other frames for management.
func (p *ethernetPort) rules() []dpdk.Rule {
	all := p.queues()
	var rules []dpdk.Rule
	for _, r := range p.cfg.Segments() {
		vlan := p.flowVLAN(r.VLAN)
		if r.V2 {
			for _, m := range []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6} {
				rules = append(rules, dpdk.Rule{Match: m, Queues: all, RSS: len(all) > 1, VLAN: vlan})
			}
		}
		if r.V1 { // RSS knows IP headers, not a GRH
			rules = append(rules, dpdk.Rule{Match: dpdk.MatchRoCEv1, Queues: all[:1], VLAN: vlan})
		}
	}
	return rules
}
