// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/punt"
)

// arpOrND is the RoCE version of a host known from ARP or ND: none.
const arpOrND = 0

// HandleARP learns the sender, and answers for the bridge and for IB nodes (proxy ARP, RFC 1027).
func (n *Neighbours) HandleARP(worker int, f frame.Frame, now time.Time) {
	a, fault := frame.ParseARP(f.Eth.Src(), f.Payload)
	if fault != "" {
		n.frames.Malformed(fault.Counter())
		return
	}
	if !a.IsProbe() {
		n.heardBy(f, a.SPA, a.SHA, a.Op == frame.ARPReply, now)
	}
	if a.Op == frame.ARPRequest && !a.IsGratuitous() && !n.AnswersFor(a.TPA) {
		n.wanted(a.TPA, a.IsProbe() || n.isStranger(a.SPA), now)
	}
	if a.Op != frame.ARPRequest || a.IsGratuitous() {
		n.frames.NotForUs()
		return
	}
	link, may := n.answersBy(a.TPA, a.SHA)
	if !may {
		n.frames.NotForUs()
		return
	}
	if n.frames.Send(worker, frame.AppendARPReply(nil, link, a)) {
		n.count.ARPAnswered++
	}
	if !a.IsProbe() {
		n.Confirm(a.SPA, a.SHA, punt.VID(f), now)
	}
}

// heardBy learns a host from ARP or ND; answers: the frame may answer a request of the bridge's.
func (n *Neighbours) heardBy(f frame.Frame, ip netip.Addr, mac frame.MAC, answers bool, now time.Time) {
	answers = answers && f.Eth.Dst() == n.local.Link.MAC && n.isAnswer(ip, mac, now)
	if answers {
		n.prefer(ip, mac, now)
	}
	n.Learn(ip, mac, punt.VID(f), arpOrND, now)
	if answers {
		n.answered(ip, mac)
	}
}

// HandleND learns hosts from neighbour discovery, and answers solicitations.
func (n *Neighbours) HandleND(worker int, f frame.Frame, now time.Time) {
	nd, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	switch {
	case fault == frame.NDType: // routers', and errors
		n.frames.NotForUs()
	case fault != "":
		n.frames.Malformed(fault.Counter())
	case nd.Type == frame.NDSolicitation:
		n.solicited(worker, f, nd, now)
	case !nd.LinkLayer.IsZero() && (nd.Override || !n.isElsewhere(nd.Target, nd.LinkLayer)):
		n.heardBy(f, nd.Target, nd.LinkLayer, nd.Solicited, now)
	case nd.LinkLayer.IsZero() && n.isAt(nd.Target, f.Eth.Src()): // an answer to a unicast may leave it out (RFC 4861 §7.2.4)
		n.heardBy(f, nd.Target, f.Eth.Src(), nd.Solicited, now)
	default:
		n.frames.NotForUs()
	}
}

// solicited learns the sender, and answers for the bridge and for IB nodes (proxy ND, RFC 4861 §7.2.8).
func (n *Neighbours) solicited(worker int, f frame.Frame, nd frame.NDFields, now time.Time) {
	if !f.Src().IsUnspecified() && !nd.LinkLayer.IsZero() {
		n.heardBy(f, f.Src(), nd.LinkLayer, false, now)
	}
	if !n.AnswersFor(nd.Target) {
		n.wanted(nd.Target, f.Src().IsUnspecified() || n.isStranger(f.Src()), now)
	}
	link, may := n.answersBy(nd.Target, f.Eth.Src())
	if !may {
		n.frames.NotForUs()
		return
	}
	if n.frames.Send(worker, frame.AppendNA(nil, link, f.Eth.Src(), f.Src(), nd.Target)) {
		n.count.NDAnswered++
	}
	if !f.Src().IsUnspecified() && !nd.LinkLayer.IsZero() {
		n.Confirm(f.Src(), nd.LinkLayer, punt.VID(f), now)
	}
}

// AnswersFor reports whether the bridge answers for a: its own address, or a node's.
func (n *Neighbours) AnswersFor(a netip.Addr) bool { return n.local.Has(a) || n.nodes.Has(a) }

// answersBy reports whether a station's request for a is answered, and by which link. Of a fleet, the one answers for nodes
// that has the station's shard.
func (n *Neighbours) answersBy(a netip.Addr, station frame.MAC) (link frame.Link, may bool) {
	if !n.AnswersFor(a) {
		return link, false
	}
	if !n.announcer.isPresent(a) {
		n.count.NodesAbsent++
		return link, false
	}
	if n.local.Has(a) {
		return n.local.Link, true
	}
	return n.local.NodesLink(station)
}

// isElsewhere reports whether a host is known by another MAC address, which an advertisement without Override
// does not change (RFC 4861 §7.2.5).
func (n *Neighbours) isElsewhere(ip netip.Addr, mac frame.MAC) bool {
	h, known := n.Find(ip)
	return known && frame.MAC(h.MAC) != mac
}
