// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"

	"causeway/lcore/frame"
)

// Plain IP between RoCE hosts and nodes, such as ping and TCP, which the kernel forwards where it has an interface on
// the RoCE side.

// A plainProbe checks for it.
type plainProbe struct{ *ipoibProbe }

// plain reports whether the kernel can forward plain IP.
func (p plainProbe) plain() bool { return p.ports.roce != "" && p.ports.roce != p.netdev }

// checkPlainIPv4 requires forwarding on the RoCE side's interface, too.
func (p plainProbe) checkPlainIPv4() []Finding {
	if !p.plain() {
		return nil
	}
	return p.forwards(conf("ipv4", p.ports.roce, "forwarding"))
}

// checkPlainIPv6 requires IPv6 on the RoCE side's interface, and forwarding of all interfaces: for IPv6 the kernel
// looks at no other setting (Linux net/ipv6/ip6_output.c, ip6_forward). Each RoCE host needs a route of its own, as the
// subnet's goes by InfiniBand, where the interface has an address of it.
func (p plainProbe) checkPlainIPv6() []Finding {
	if !p.plain() || !p.speaksIPv6() {
		return nil
	}
	var out []Finding
	if at := conf("ipv6", p.ports.roce, "disable_ipv6"); sysctl(p.kernel, at) != 0 {
		out = append(out, bad(Warn, fmt.Sprintf("%s is on: plain IPv6 of RoCE hosts ends here", dotted(at)), set(at, 0)))
	}
	out = append(out, p.forwards(conf("ipv6", "all", "forwarding"))...)
	var fix []string
	for _, a := range hostsOn(p.cfg, roceHosts, true) {
		if !p.isByRoCE(a) {
			fix = append(fix, fmt.Sprintf("ip -6 route replace %s/%d dev %s", a, a.BitLen(), p.ports.roce))
		}
	}
	if len(fix) > 0 {
		out = append(out, bad(Warn, fmt.Sprintf("%d RoCE hosts' IPv6 addresses are not routed by %s: plain IPv6 does not reach them",
			len(fix), p.ports.roce), fix...))
	}
	return out
}

// checkCopies requires rules that keep RoCE's packets from being forwarded as plain IP. A packet socket gets a copy,
// and the kernel keeps the packet itself: with forwarding on it would send each message a second time, as plain IP over
// IPoIB, and answer those larger than IPoIB's MTU by ICMP, after which a RoCE host sends no large messages to the node
// any more. Other ports leave the kernel no RoCE.
func (p plainProbe) checkCopies() []Finding {
	if !p.plain() || p.cfg.RoCE.Port.Kind() != "af_packet" {
		return nil
	}
	var fix []string
	for _, ipv6 := range []bool{false, true} {
		ip := "ip"
		if ipv6 {
			ip = "ip -6"
		}
		if (!ipv6 || p.speaksIPv6()) && !p.kernel.Stopped(p.ports.roce, frame.PortRoCEv2, ipv6) {
			fix = append(fix, fmt.Sprintf("%s rule add iif %s ipproto 17 dport %d pref 100 blackhole", ip, p.ports.roce, frame.PortRoCEv2))
		}
	}
	if len(fix) > 0 {
		return []Finding{bad(Warn, fmt.Sprintf("the kernel gets RoCE's packets on %s, too, and forwards them as plain IP: nodes receive "+
			"them a second time, and hosts ICMP errors for large ones", p.ports.roce), fix...)}
	}
	return fine("the kernel does not forward RoCE's packets of %s", p.ports.roce)
}

func (p plainProbe) speaksIPv6() bool {
	return len(hostsOn(p.cfg, nodes, true)) > 0 || p.hasNodes(true)
}

func (p plainProbe) forwards(at string) []Finding {
	if sysctl(p.kernel, at) == 0 {
		return []Finding{bad(Warn, fmt.Sprintf("%s is off: plain IP from RoCE hosts to nodes, such as ping and TCP, ends here", dotted(at)), set(at, 1))}
	}
	return []Finding{ok("%s is on", dotted(at))}
}

// isByRoCE reports whether a RoCE host's address is routed to its side, or translated, which the kernel does not do.
func (p plainProbe) isByRoCE(a netip.Addr) bool {
	if isTranslated(p.cfg, a) {
		return true
	}
	r, err := p.kernel.Route(a)
	return err == nil && r.Unicast && r.Dev == p.ports.roce
}
