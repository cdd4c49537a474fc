// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbours/schedule"
	"causeway/tables"
)

const (
	// lookMost bounds how many hosts are looked at in one tick.
	lookMost = 4096
	// askMost bounds how many requests are sent in one tick, not to overrun the worker's ring.
	askMost = 64
	// retryProbe is when a probe is tried again that the worker's ring had no room for.
	retryProbe = 100 * time.Millisecond
)

// heard records a frame of a host from the MAC address of its entry.
func (n *Neighbours) heard(ip netip.Addr, now time.Time) {
	claimant, rejected := n.hosts.Heard(ip, now)
	if h, known := n.Find(ip); known && !h.Static {
		n.order.Put(ip, n.classOf(h))
	}
	if !rejected {
		return
	}
	if h, known := n.Find(ip); known {
		n.conflict(h, claimant)
	}
}

// age looks at the hosts that are due: it probes those that have been silent for long, and removes those that neither
// answer nor have proxy QPs.
func (n *Neighbours) age(now, heard time.Time) {
	asked := 0
	for range lookMost {
		x := n.hosts.Due(heard)
		if x == nil || asked >= askMost {
			return
		}
		h, known := n.Find(x.IP)
		switch {
		case !known: // cannot be: they come and go together
			n.hosts.Drop(x.IP)
		case x.IsContested():
			asked += n.judgeClaim(x, h, now)
		default:
			asked += n.ageHost(x, h, now)
		}
	}
}

// ageHost does what a host's silence asks for, and returns how many requests it sent. Messages for a silent host go
// where it was, meanwhile.
func (n *Neighbours) ageHost(x *schedule.Host, h tables.Host, now time.Time) int {
	use := schedule.Use{ProxyQPs: n.proxyQPs.Of(x.IP) > 0, At: n.proxyQPs.LastUsed(x.IP, now), OnLink: n.local.OnLink(x.IP)}
	switch n.hosts.Age(x, use, now) {
	case schedule.Probe:
		return n.probe(x, h, h.MAC, now)
	case schedule.Silent:
		n.count.HostsSilent++
		if n.log.Allow("host_silent", 1) {
			n.log.Warn("host_silent", "ip", x.IP, "mac", frame.MAC(h.MAC), "heard", x.Heard,
				"note", "it has proxy QPs, but does not answer requests for its MAC address")
		}
		return n.probe(x, h, frame.Broadcast, now)
	case schedule.Find:
		return n.probe(x, h, frame.Broadcast, now)
	case schedule.Remove:
		if n.drop(x.IP) {
			n.count.HostsAged++
		} else {
			n.hosts.Keep(x) // the tables could not
		}
	}
	return 0
}

// probe asks a host for its MAC address, alone or by broadcast, and returns how many requests it sent.
func (s *standings) probe(x *schedule.Host, h tables.Host, to frame.MAC, now time.Time) int {
	if !s.searcher.askAt(frame.Link{MAC: s.local.Link.MAC, VID: h.VLAN}, to, x.IP) {
		s.hosts.Postpone(x, now.Add(retryProbe))
		return askMost // the worker's ring is full: no more in this tick
	}
	s.hosts.Asked(x, now)
	return 1
}

// SetHosts makes these the static hosts, and the hosts that are asked for their MAC address. One that was static stays
// known as a learned host.
func (n *Neighbours) SetHosts(hosts []tables.Host, resolve []netip.Addr, now time.Time) {
	static := make(map[netip.Addr]bool, len(hosts))
	for _, h := range hosts {
		static[h.IP] = true
	}
	for _, old := range n.cfg.Hosts {
		if !static[old.IP] {
			n.release(old.IP, now)
		}
	}
	n.searcher.set(resolve)
	n.cfg.Hosts = hosts
	for _, h := range hosts {
		n.fix(h, now)
	}
}

// SetMax changes how many hosts there may be. Those that are too many go when others come.
func (n *Neighbours) SetMax(most int) { n.cfg.Max = most }

// Clear forgets all hosts, none of which has proxy QPs: their segment is there no more.
func (n *Neighbours) Clear(now time.Time) {
	n.SetHosts(nil, nil, now)
	n.announcer.schedule.Clear()
	for h := range n.tables.All() {
		n.drop(h.IP)
	}
}

// release makes a static host one that was learned just now.
func (n *Neighbours) release(ip netip.Addr, now time.Time) {
	h, known := n.Find(ip)
	if !known || !h.Static {
		return
	}
	h.Static = false
	h.Routed = isRouted(n.local, h)
	if _, err := n.tables.Put(h); err != nil {
		n.log.Error("host_released", "ip", ip, "error", err)
		return
	}
	n.hosts.Add(ip, now)
	n.order.Put(ip, n.classOf(h))
}

// fix makes a host static. It keeps the RoCE version that it sends, if it is known.
func (n *Neighbours) fix(h tables.Host, now time.Time) {
	old, known := n.Find(h.IP)
	if known {
		h.Version = old.Version
	}
	if known && h == old {
		return
	}
	if err := n.put(h, known, true, now); err != nil { // until it is learned, or the next change
		n.log.Error("host_rejected", "ip", h.IP, "mac", frame.MAC(h.MAC), "error", err)
		return
	}
	n.hosts.Drop(h.IP)
	n.order.Remove(h.IP)
}

// Readdress follows a change of the nodes' addresses: RoCE hosts that had the added ones are removed, and these are
// announced.
func (n *Neighbours) Readdress(added, removed []netip.Addr) {
	for _, ip := range added {
		n.proxyQPs.RemoveHost(ip, "its host is an IB node")
		if _, known := n.Find(ip); known {
			n.drop(ip)
		}
	}
	n.announcer.readdress(added, removed)
}
