// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"bytes"
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/groups/igmp"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// entries are the groups in the tables. Of several groups of one address, one is the main one, which RoCE's messages to
// the address belong to: the one that leads to IB, else the one with the least MGID, which then names why they are
// dropped. The others are inbound.
type entries struct {
	tables Tables
	log    *ratelog.Logger
	host   *igmp.Host
	entry  tables.Group // what all entries have in common
	ibMTU  int
	ethMTU int
	begin  func(id int)
	police func(id int, rate uint64)
	number func(ib.PKey) uint8

	byAddr  map[tables.GroupAddr][]*membership // that are open
	joined  []Joined
	changed bool // joined, or the state of a group
	isGuest func(netip.Addr) bool
}

func newEntries(c *Config, d *Deps, host *igmp.Host) *entries {
	return &entries{
		tables: d.Tables, log: d.Log, host: host, ibMTU: c.IBMTU, ethMTU: c.EthMTU, begin: c.Begin, police: c.Police, number: d.Partition,
		byAddr: map[tables.GroupAddr][]*membership{},
		entry:  tables.Group{MTUToRoCE: c.RoCEMTU, VLAN: d.Local.Link.VID, Version: c.Version},
	}
}

// of is the entry of a group that is joined.
func (e *entries) of(m *membership) tables.Group {
	x, got := e.entry, &m.granted
	x.IP, x.MGID, x.MLID, x.SL, x.HopLimit = m.IP, m.MGID, got.MLID, got.SL, got.HopLimit
	x.Rate = got.Rate
	x.QKey, x.RoCEQKey, x.MTUToIB = got.QKey, m.QKey, min(got.MTU.Bytes(), e.ibMTU)
	x.Partition, x.Segments = e.number(m.PKey), m.Segments
	x.ToIB, x.ToRoCE, x.RewriteImm, x.Policed, x.PGM = m.ToIB, m.ToRoCE, m.RewriteImm, m.Rate != 0, m.PGM
	if m.UDPPort != 0 {
		x.Version, x.UDPPort, x.TTL, x.RoCEQKey, x.MTUToRoCE = tables.PlainUDP, m.UDPPort, m.TTL, 0, e.datagramMTU(m.IP)
	}
	return x
}

// datagramMTU is the largest payload of a datagram of plain UDP that the Ethernet port sends whole, at most what a UD
// message has.
func (e *entries) datagramMTU(group netip.Addr) int {
	headers := frame.IPv4Len + frame.UDPLen
	if group.Is6() {
		headers = frame.IPv6Len + frame.UDPLen
	}
	return min(e.ethMTU-headers, ib.MTU4096.Bytes())
}

// open lets messages of a joined group cross as is wanted. A group that was not open gets its rate, and its counters
// begin, while its entry has no direction yet: its id may have been another group's.
func (e *entries) open(m *membership) {
	x, was := e.of(m), m.open && m.entry.ToIB
	if !m.open {
		closed := x
		closed.ToIB, closed.ToRoCE = false, false
		if !e.place(m, closed) {
			return
		}
		e.began(m)
	}
	if m.Rate != 0 && m.Rate != m.rate {
		e.police(m.id, m.Rate)
	}
	if !e.place(m, x) {
		return
	}
	if m.Rate == 0 && m.rate != 0 {
		e.police(m.id, 0)
	}
	m.rate = m.Rate
	e.changed = true
	switch changed := !slices.Equal(m.sources, m.Sources); {
	case !m.ToIB || was && !changed:
		return
	case was:
		e.host.Leave(m.IP, time.Now())
	}
	e.host.Join(m.IP, m.Sources, m.worker, time.Now())
	m.sources = m.Sources
}

// began notes a group that was not in the tables before.
func (e *entries) began(m *membership) {
	m.open, m.rate = true, 0
	e.byAddr[m.Addr()] = append(e.byAddr[m.Addr()], m)
	if e.begin != nil {
		e.begin(m.id)
	}
	e.log.Info("group_joined", "group", m.Addr(), "mgid", m.MGID, "mlid", m.granted.MLID, "mtu", m.granted.MTU.Bytes(), "worker", m.worker)
}

// place puts a group into the tables. One that they do not take is closed and marked as failed.
func (e *entries) place(m *membership, x tables.Group) bool {
	main := m
	if x.Segments == 0 { // else no other of its segments' has the address
		main = e.mainOf(x.Addr(), m, x.ToIB)
	}
	if main == m && x.Segments == 0 {
		e.demote(x.Addr(), m)
	}
	x.Inbound = main != m
	id, err := e.tables.Put(x)
	if err != nil { // the bridge does not get ready, which is what an operator watches
		e.log.Error("group_rejected", "group", m.IP, "mgid", m.MGID, "error", err)
		e.close(m)
		e.promote(x.Addr())
		m.failed = time.Now()
		return false
	}
	m.id, m.entry = int(id), x
	return true
}

// narrow ends what is not wanted any more.
func (e *entries) narrow(m *membership) {
	if !m.open {
		return
	}
	x := m.entry
	x.ToIB, x.ToRoCE, x.Segments = x.ToIB && m.ToIB, x.ToRoCE && m.ToRoCE, x.Segments&m.Segments
	if m.gone || x.Addr() != m.Addr() || !x.ToIB && !x.ToRoCE || x.Segments == 0 && m.Segments != 0 {
		e.close(m)
		return
	}
	if x == m.entry {
		return
	}
	was := m.entry.ToIB
	if e.place(m, x) && was && !x.ToIB {
		e.leave(x.IP)
		e.promote(x.Addr())
	}
}

// leave reports that an address is left, if no group leads from it to IB any more.
func (e *entries) leave(ip netip.Addr) {
	for addr, list := range e.byAddr {
		if addr.IP == ip && slices.ContainsFunc(list, func(m *membership) bool { return m.entry.ToIB }) {
			return
		}
	}
	if e.isGuest(ip) {
		return
	}
	e.host.Leave(ip, time.Now())
}

// close takes a group out of the tables.
func (e *entries) close(m *membership) {
	if !m.open {
		return
	}
	addr := m.entry.Addr()
	if err := e.tables.DeleteMGID(m.MGID); err != nil {
		e.log.Error("group_delete", "group", addr, "mgid", m.MGID, "error", err)
	}
	m.open, e.changed = false, true
	if e.byAddr[addr] = slices.DeleteFunc(e.byAddr[addr], func(o *membership) bool { return o == m }); len(e.byAddr[addr]) == 0 {
		delete(e.byAddr, addr)
	}
	if m.entry.ToIB {
		e.leave(addr.IP)
	}
	e.promote(addr)
	e.log.Info("group_closed", "group", addr, "mgid", m.MGID)
}

// mainOf returns the main group of an address when m is open too, and leads to IB or not.
func (e *entries) mainOf(addr tables.GroupAddr, m *membership, toIB bool) *membership {
	main := m
	for _, o := range e.byAddr[addr] {
		switch {
		case o == m:
		case o.entry.ToIB:
			return o
		case !toIB && bytes.Compare(o.MGID[:], main.MGID[:]) < 0:
			main = o
		}
	}
	return main
}

// demote makes all groups of an address inbound but m.
func (e *entries) demote(addr tables.GroupAddr, m *membership) {
	for _, o := range e.byAddr[addr] {
		if o != m && !o.entry.Inbound {
			e.setInbound(o, true)
		}
	}
}

// promote gives an address that has groups left a main one.
func (e *entries) promote(addr tables.GroupAddr) {
	list := e.byAddr[addr]
	if len(list) == 0 {
		return
	}
	if main := e.mainOf(addr, list[0], list[0].entry.ToIB); main.entry.Inbound {
		e.demote(addr, main)
		e.setInbound(main, false)
	}
}

func (e *entries) setInbound(m *membership, inbound bool) {
	x := m.entry
	x.Inbound = inbound
	if _, err := e.tables.Put(x); err != nil {
		e.log.Error("group_inbound", "group", m.IP, "mgid", m.MGID, "error", err)
		return
	}
	m.entry = x
}

// A Joined group is one that is bridged, and the id that workers count it under. Several may have one address.
type Joined struct {
	IP       netip.Addr
	ID       int
	MGID     ib.GID
	Learned  bool
	Segments uint8 // those that have it, a bit for each; 0: there is only one
}

// list lists the groups that are open.
func (e *entries) list(groups iter.Seq[*membership]) {
	var list []Joined // a new one: the last is read elsewhere
	for m := range groups {
		if m.open {
			list = append(list, Joined{IP: m.IP, ID: m.id, MGID: m.MGID, Learned: m.learned != nil, Segments: m.Segments})
		}
	}
	slices.SortFunc(list, func(a, b Joined) int {
		return cmp.Or(a.IP.Compare(b.IP), bytes.Compare(a.MGID[:], b.MGID[:]))
	})
	e.joined, e.changed = list, false
}
