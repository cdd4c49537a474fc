// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// ethernetPort is the Ethernet port, and what of its frames is the bridge's.
type ethernetPort struct {
	cfg     *config.Config // as it was at the start
	inForce func() *config.Config
	log     *slog.Logger
	private bool // nobody else can have it

	mu       sync.Mutex // of what controls the port while the bridge runs
	port     *dpdk.Port
	wakes    []*lcore.Worker                 // that sleep until the port wakes them, by queue
	listener *listener                       // on a port that is shared with the kernel
	flows    map[tables.GroupAddr]*dpdk.Flow // there, of groups of plain UDP
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
		MTU: p.cfg.RoCE.MTU, RxInterrupts: wantsWakes(idleOf(&p.cfg.Workers)),
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

// reopen puts the port on its interface when that was deleted and is there again.
func (p *ethernetPort) reopen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.port.Reopen(); err != nil {
		return err
	}
	return p.setWakes()
}

// stats returns the port's counters, and what the listener has missed besides; zero where its driver has none.
func (p *ethernetPort) stats() dpdk.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.port.Stats()
	if err != nil {
		return dpdk.Stats{RxMissedUnknown: true}
	}
	if p.listener != nil {
		s.RxMissed += p.listener.lost()
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

// ownAddresses are the bridge's own, with the link-local one.
func (p *ethernetPort) ownAddresses() []netip.Prefix {
	own := append([]netip.Prefix(nil), p.cfg.RoCE.Addresses...)
	return append(own, netip.PrefixFrom(p.mac().LinkLocal(), 64))
}

// learnsReports reports whether groups are learned from hosts' reports: those of older versions are sent to the groups.
func (p *ethernetPort) learnsReports() bool {
	return slices.ContainsFunc(p.inForce().Ranges, func(r config.Range) bool { return r.Reports })
}

// receive makes the port, and the kernel's interface where the port is shared, receive these groups besides those that
// management needs; or all groups while groups are learned from reports.
func (p *ethernetPort) receive(groups []tables.GroupAddr) error {
	macs, all := p.multicastMACs(groups), p.learnsReports()
	p.mu.Lock()
	defer p.mu.Unlock()
	set := p.port.SetMulticast
	if all {
		set = func([][6]byte) (dpdk.MulticastFilter, error) { return p.port.SetAllMulticast() }
	}
	if _, err := set(macs); err != nil {
		return err
	}
	if p.listener == nil {
		return nil
	}
	return errors.Join(p.listener.follow(macs), p.listener.followAll(all), p.takePlain(groups))
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
	if p.listener, err = listen(netdev, p.cfg.RoCE.VLAN, p.port.MTU(), p.learnsReports(), p.multicastMACs(p.groupsToIB())); err != nil {
		return err
	}
	undo.add(func() error {
		if n := p.listener.lost(); n > 0 {
			p.log.Warn("frames_missed", "interface", netdev.Name, "frames", n)
		}
		return p.listener.close()
	})
	p.log.Info("port_shared", "interface", netdev.Name, "flow_rules", len(rules), "note", "RoCE is the bridge's, the rest the kernel's")
	return nil
}

// groupsToIB are the groups of the configuration that are bridged from RoCE.
func (p *ethernetPort) groupsToIB() []tables.GroupAddr {
	var groups []tables.GroupAddr
	for _, g := range p.cfg.Groups {
		if g.Direction&config.ToIB != 0 {
			groups = append(groups, tables.GroupAddr{IP: g.IP, UDPPort: g.UDPPort})
		}
	}
	return groups
}

// multicastMACs are the addresses of groups that are bridged from RoCE, and of groups for neighbours and routers.
func (p *ethernetPort) multicastMACs(bridged []tables.GroupAddr) [][6]byte {
	groups := []netip.Addr{netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")}
	for _, g := range bridged {
		groups = append(groups, g.IP)
	}
	solicited := func(a netip.Addr) {
		if a.Is6() {
			groups = append(groups, frame.SolicitedNode(a))
		}
	}
	for _, own := range p.ownAddresses() {
		solicited(own.Addr())
	}
	for _, x := range p.inForce().Hosts {
		if x.Side == config.SideIB && x.IP6.IsValid() {
			solicited(x.IP6)
		}
	}
	if p.cfg.RoCE.V1 { // whose frames to an IPv4 group go to the address of its IPv6 form (Annex A16)
		for _, g := range bridged {
			if g.IP.Is4() && g.UDPPort == 0 {
				groups = append(groups, netip.AddrFrom16(ib.MGIDRoCEv1(g.IP)))
			}
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
func (p *ethernetPort) flowVLAN() uint16 {
	if p.cfg.RoCE.Port.Kind() == "tap" {
		return 0
	}
	return p.cfg.RoCE.VLAN
}

// plainRule takes a group of plain UDP, spread over the workers by source address as RoCEv2 is.
func (p *ethernetPort) plainRule(g tables.GroupAddr) dpdk.Rule {
	all := p.queues()
	return dpdk.Rule{Match: dpdk.MatchUDP, IP: g.IP, UDPPort: g.UDPPort, Queues: all, RSS: len(all) > 1, VLAN: p.flowVLAN()}
}

// takePlain takes those of these groups that are plain UDP from the kernel, and no others. The next call retries what
// failed.
func (p *ethernetPort) takePlain(groups []tables.GroupAddr) error {
	wanted := map[tables.GroupAddr]bool{}
	var errs []error
	for _, g := range groups {
		if wanted[g] = true; g.UDPPort == 0 || p.flows[g] != nil {
			continue
		}
		flow, err := p.port.CreateFlow(p.plainRule(g)) // the rules go with the port
		if err != nil {
			errs = append(errs, fmt.Errorf("group %v: %w", g, err))
			continue
		}
		if p.flows == nil {
			p.flows = map[tables.GroupAddr]*dpdk.Flow{}
		}
		p.flows[g] = flow
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

// rules take RoCEv2, spread over the workers by source address, and RoCEv1, on the first queue, whatever the
// destination. Workers drop by name what is not the bridge's. The listener has all other frames for management.
func (p *ethernetPort) rules() []dpdk.Rule {
	all, vlan := p.queues(), p.flowVLAN()
	var rules []dpdk.Rule
	if p.cfg.RoCE.V2 {
		for _, m := range []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6} {
			rules = append(rules, dpdk.Rule{Match: m, Queues: all, RSS: len(all) > 1, VLAN: vlan})
		}
	}
	if p.cfg.RoCE.V1 { // RSS knows IP headers, not a GRH
		rules = append(rules, dpdk.Rule{Match: dpdk.MatchRoCEv1, Queues: all[:1], VLAN: vlan})
	}
	return rules
}
