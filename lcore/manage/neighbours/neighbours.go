// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"fmt"
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours/schedule"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Neighbours are the RoCE hosts. New makes them.
type Neighbours struct {
	*standings
	cfg      Config
	tables   Tables
	nodes    Nodes
	proxyQPs ProxyQPs
	local    *local.Addresses
	frames   *punt.Workers
	log      *ratelog.Logger

	wanted  func(ip netip.Addr, stranger bool, now time.Time)
	claimed func(ip netip.Addr, now time.Time)

	hosts     *schedule.Hosts
	searcher  *searcher
	announcer *announcer
	count     Counters
}

// New makes Neighbours.
func New(c Config, d Deps) *Neighbours {
	n := &Neighbours{
		cfg: c, tables: d.Tables, nodes: d.Nodes, proxyQPs: d.ProxyQPs, local: d.Local, frames: d.Frames, log: d.Log,
		hosts: schedule.NewHosts(), wanted: d.Wanted, claimed: d.Claimed,
	}
	n.searcher, n.announcer = newSearcher(c.Resolve, &d), newAnnouncer(&d)
	n.standings = newStandings(c.Confirm, &d, n.hosts, n.searcher)
	return n
}

// Start puts the static hosts into the tables, and begins to ask for the others.
func (n *Neighbours) Start() error {
	for _, h := range n.cfg.Hosts {
		if _, err := n.tables.Put(h); err != nil {
			return fmt.Errorf("manage: static host %v: %w", h.IP, err)
		}
	}
	n.searcher.start()
	return nil
}

// Tick does what is due. heard is up to when all frames have been handled: no host has been silent for longer.
func (n *Neighbours) Tick(now, heard time.Time) {
	n.searcher.tick(now)
	n.age(now, heard)
	n.standings.age(now)
	n.Announce(now)
}

// Find returns a host that is known.
func (n *Neighbours) Find(ip netip.Addr) (tables.Host, bool) {
	h, _, known := n.tables.Find(ip)
	return h, known
}

// Counters returns a copy of the counters.
func (n *Neighbours) Counters() Counters {
	c := n.count
	c.HostsConfirmed = n.confirmed
	c.HostsAsked, c.AddressesAnnounced = n.searcher.asked, n.announcer.announced
	return c
}

// Learn notes where a host is, by data of that RoCE version from it, or, with version 0, by ARP or ND. An error and a
// Rejection say why it is not believed. A host that is known by another MAC address is probed there first.
func (n *Neighbours) Learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8, now time.Time) (punt.Rejection, error) {
	contradicts := errContradicts{ip, mac}
	if mac == n.local.Link.MAC || n.local.IsBroadcast(ip) { // an echo of the bridge's own, or forged
		return punt.RejectSource, contradicts
	}
	data := version != arpOrND
	if n.AnswersFor(ip) {
		n.spoofed(ip, mac, !data, now)
		return punt.RejectSource, contradicts
	}
	old, known := n.Find(ip)
	switch {
	case known && old.Static && old.MAC != mac:
		n.spoofed(ip, mac, false, now)
		return punt.RejectSource, contradicts
	case known && old.Static:
		vlan = old.VLAN
	case !known && !data && !n.local.OnLink(ip): // behind a router
		return punt.RejectSource, contradicts
	}
	if !data || version == tables.PlainUDP { // neither tells which RoCE the host speaks
		version = old.Version
		if !known {
			version = n.cfg.Version
		}
	}
	h := tables.Host{IP: ip, MAC: mac, VLAN: vlan, Version: version, Static: old.Static}
	h.Routed, h.Confirmed = isRouted(n.local, h), known && old.Confirmed && old.MAC == mac
	switch {
	case known && old.MAC == mac:
		n.heard(ip, now)
	case known && n.local.OnLink(ip): // off link, routers may take turns
		n.contest(old, h, data, now)
		return punt.RejectSource, contradicts
	}
	return n.note(h, old, known, data, now)
}

// isRouted reports whether the MAC address of a host is a router's. Workers compare that of each packet with all
// others: it says whose the packet is.
func isRouted(l *local.Addresses, h tables.Host) bool { return !h.Static && !l.OnLink(h.IP) }

// note writes a learned host to the tables, and counts it.
func (n *Neighbours) note(h, old tables.Host, known, urgent bool, now time.Time) (punt.Rejection, error) {
	if known && h == old {
		return 0, nil
	}
	if err := n.put(h, known, urgent, now); err != nil {
		n.count.HostsRejected++
		if n.log.Allow("host_rejected", 1) {
			n.log.Warn("host_rejected", "ip", h.IP, "mac", frame.MAC(h.MAC), "error", err)
		}
		return punt.RejectFull, err
	}
	if !known {
		n.hosts.Add(h.IP, now)
	}
	n.order.Put(h.IP, n.classOf(h))
	n.countLearned(h, old, known, now)
	return 0, nil
}

// put puts a host into the tables. urgent: if the limit is reached, another host makes room, whatever it is, so that a
// flood of ARP does not keep out a host that sends. A worker may still hold the entry of the host that goes, so that
// its place is not free at once: that is what the tables' spare room is for.
func (n *Neighbours) put(h tables.Host, known, urgent bool, now time.Time) error {
	if !known && n.tables.Len() >= n.cfg.Max {
		if ip, found := n.oldest(urgent, now); !found || !n.Remove(ip) {
			return errHosts(n.cfg.Max)
		}
	}
	_, err := n.tables.Put(h)
	return err
}

// Remove removes a learned host, which is asked for again when it is needed. It reports false for one that is not
// known, is static, or has proxy QPs.
func (n *Neighbours) Remove(ip netip.Addr) bool {
	h, known := n.Find(ip)
	if !known || h.Static || n.proxyQPs.Of(ip) > 0 || !n.drop(ip) {
		return false
	}
	n.count.HostsEvicted++
	return true
}

// drop takes a host out of the tables. One that is configured without its MAC address is asked for again.
func (n *Neighbours) drop(ip netip.Addr) bool {
	if n.tables.Delete(ip) != nil {
		return false
	}
	n.hosts.Drop(ip)
	n.order.Remove(ip)
	n.searcher.lost(ip)
	return true
}

func (n *Neighbours) countLearned(h, old tables.Host, known bool, now time.Time) {
	switch {
	case !known:
		n.count.HostsLearned++
		const most = 32 // a rack that is switched on
		if n.log.Allow("host_learned", most) {
			n.log.Info("host_learned", "ip", h.IP, "mac", frame.MAC(h.MAC), "vlan", h.VLAN, "roce_version", h.Version)
		}
	case h.MAC != old.MAC:
		n.moved(h.IP, old.MAC, h.MAC, now)
	}
}
