// SPDX-License-Identifier: Apache-2.0

package house

import (
	"net/netip"

	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore/frame"
)

// isolated reports whether the port is shared with the kernel, which keeps every frame that no rule takes.
func (h *House) isolated() bool { return h.cfg.RoCE.Port.Driver == "mlx5" }

// steer has the port receive what is the bridge's: by rte_flow rules where the port is shared with the
// kernel, else all of it, told apart by the workers. Multicast addresses are filtered either way.
func (h *House) steer() error {
	filter, err := h.port.SetMulticast(h.multicastMACs())
	if err != nil {
		return err
	}
	h.log.Info("ethernet_port", "port", h.port.Name(), "mac", h.link(), "mtu", h.port.MTU(), "multicast", filter.String(),
		"flow_rules", h.isolated())
	if !h.isolated() {
		return nil
	}
	for _, r := range h.rules() {
		if _, err := h.port.CreateFlow(r); err != nil { // the rules go with the port
			return err
		}
	}
	return nil
}

// multicastMACs are the groups that are bridged from RoCE, and those on which neighbours and routers speak.
func (h *House) multicastMACs() [][6]byte {
	groups := []netip.Addr{netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")}
	for _, g := range h.cfg.Groups {
		if g.Direction&config.ToIB != 0 {
			groups = append(groups, g.IP)
		}
	}
	solicited := func(a netip.Addr) {
		if a.Is6() {
			groups = append(groups, frame.SolicitedNode(a))
		}
	}
	for _, p := range h.ownAddresses() {
		solicited(p.Addr())
	}
	for _, x := range h.cfg.Hosts {
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

// rules take RoCEv2, spread over the workers by source address; RoCEv1, and what management serves, on the first queue.
func (h *House) rules() []dpdk.Rule {
	var all []uint16
	for i := range h.cfg.Workers.LCores {
		all = append(all, uint16(i))
	}
	var rules []dpdk.Rule
	data := func(m dpdk.Match) {
		rules = append(rules, dpdk.Rule{Match: m, Queues: all, RSS: len(all) > 1})
	}
	if h.cfg.RoCE.V2 {
		data(dpdk.MatchRoCEv2IPv4)
		data(dpdk.MatchRoCEv2IPv6)
	}
	first := []dpdk.Match{dpdk.MatchARP, dpdk.MatchND, dpdk.MatchIGMP, dpdk.MatchMLD}
	if h.cfg.RoCE.V1 {
		first = append(first, dpdk.MatchRoCEv1) // RSS knows IP headers, not a GRH
	}
	for _, m := range first {
		rules = append(rules, dpdk.Rule{Match: m, Queues: all[:1]})
	}
	return rules
}
