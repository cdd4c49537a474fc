// SPDX-License-Identifier: Apache-2.0

package house

import (
	"net"
	"net/netip"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// steer has the port receive what is the bridge's: RoCE alone where the port is shared with the kernel, else all
// of it, told apart by the workers. Multicast addresses are filtered either way.
func (h *House) steer() error {
	filter, err := h.port.SetMulticast(h.multicastMACs(h.groupsToIB()))
	if h.learnsReports() {
		filter, err = h.port.SetAllMulticast()
	}
	if err != nil {
		return err
	}
	h.log.Info("ethernet_port", "port", h.port.Name(), "mac", h.link(), "mtu", h.port.MTU(), "multicast", filter.String(),
		"shared", h.port.Shared())
	if !h.port.Shared() {
		return nil
	}
	return h.share()
}

// share takes RoCE out of what comes to the kernel's interface, and listens there for the rest that is management's.
// A bridge without one of its rules, or deaf, would be none: there is nothing that may fail.
func (h *House) share() error {
	netdev, err := h.port.KernelInterface()
	if err != nil {
		return err
	}
	if netdev.Flags&net.FlagUp == 0 {
		h.log.Warn("interface_down", "interface", netdev.Name, "note", "ip link set "+netdev.Name+" up")
	}
	if caveat := h.port.Caveat(); caveat != "" {
		h.log.Warn("ethernet_port", "note", caveat)
	}
	rules := h.rules()
	for _, r := range rules {
		if _, err := h.port.CreateFlow(r); err != nil { // the rules go with the port
			return err
		}
	}
	if h.listener, err = listen(netdev, h.cfg.RoCE.VLAN, h.port.MTU(), h.learnsReports(), h.multicastMACs(h.groupsToIB())); err != nil {
		return err
	}
	h.onTakeDown(func() error {
		if n := h.listener.lost(); n > 0 {
			h.log.Warn("frames_unheard", "interface", netdev.Name, "frames", n)
		}
		return h.listener.close()
	})
	h.log.Info("port_shared", "interface", netdev.Name, "flow_rules", len(rules), "note", "RoCE is the bridge's, the rest the kernel's")
	return nil
}

// groupsToIB are the groups of the configuration that are bridged from RoCE.
func (h *House) groupsToIB() []netip.Addr {
	var groups []netip.Addr
	for _, g := range h.cfg.Groups {
		if g.Direction&config.ToIB != 0 {
			groups = append(groups, g.IP)
		}
	}
	return groups
}

// multicastMACs are those of groups that are bridged from RoCE, and those on which neighbours and routers speak.
func (h *House) multicastMACs(bridged []netip.Addr) [][6]byte {
	groups := append([]netip.Addr{netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")}, bridged...)
	solicited := func(a netip.Addr) {
		if a.Is6() {
			groups = append(groups, frame.SolicitedNode(a))
		}
	}
	for _, p := range h.ownAddresses() {
		solicited(p.Addr())
	}
	for _, x := range h.Config().Hosts {
		if x.Side == config.SideIB && x.IP6.IsValid() {
			solicited(x.IP6)
		}
	}
	if h.cfg.RoCE.V1 { // whose frames to an IPv4 group go to the address of its IPv6 form (Annex A16)
		for _, g := range bridged {
			if g.Is4() {
				groups = append(groups, netip.AddrFrom16(ib.MGIDRoCEv1(g)))
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

// rules take RoCEv2, spread over the workers by source address, and RoCEv1, on the first queue; to whomever, groups
// included. The workers drop by name what is not the bridge's. All else management hears by the listener.
func (h *House) rules() []dpdk.Rule {
	var all []uint16
	for i := range h.cfg.Workers.LCores {
		all = append(all, uint16(i))
	}
	vlan := h.cfg.RoCE.VLAN
	if h.cfg.RoCE.Port.Driver == "tap" {
		vlan = 0 // it knows no VLAN ids, and looks into the tags of all
	}
	var rules []dpdk.Rule
	if h.cfg.RoCE.V2 {
		for _, m := range []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6} {
			rules = append(rules, dpdk.Rule{Match: m, Queues: all, RSS: len(all) > 1, VLAN: vlan})
		}
	}
	if h.cfg.RoCE.V1 { // RSS knows IP headers, not a GRH
		rules = append(rules, dpdk.Rule{Match: dpdk.MatchRoCEv1, Queues: all[:1], VLAN: vlan})
	}
	return rules
}
