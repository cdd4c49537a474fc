// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"slices"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A fixture is the configuration and the table entries of a rig's bridge. The reference model decides by the same
// fixture, and by nothing else.
type fixture struct {
	workers  int // 0: one
	config   lcore.DatapathConfig
	own      tables.Own
	hosts    []tables.Host
	proxyQPs []tables.ProxyQP
	nodes    []tables.Node
	groups   []tables.Group
	second   *fixture // the second segment: its hosts, proxy QPs and groups; nil: there is one
	fabrics  *fabrics // two InfiniBand ports, which give the entries their addresses; nil: there is one
}

// The addresses of the worked examples: host 1 sends to node 2 through a bridge that has node 2's MAC address on
// Ethernet, as with proxy ARP.
var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 2}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}

	hostIP     = netip.MustParseAddr("10.10.0.1")
	nodeIP     = netip.MustParseAddr("10.10.0.2")
	bridgeIP   = netip.MustParsePrefix("10.10.0.254/24")
	hostIP6    = netip.MustParseAddr("2001:db8::1")
	nodeIP6    = netip.MustParseAddr("2001:db8::2")
	bridgeIP6  = netip.MustParsePrefix("2001:db8::fe/64")
	hostLocal  = hostMAC.LinkLocal() // the GID of RoCEv1
	nodeLocal  = bridgeMAC.LinkLocal()
	localNet   = netip.MustParsePrefix("fe80::/64")
	newcomerIP = netip.MustParseAddr("10.10.0.9") // allowed, but without a proxy QP
	strangerIP = netip.MustParseAddr("10.11.0.9") // not allowed

	bridgeGID = mustGID("fe80::2:c903:0:1")
	nodeGID   = mustGID("fe80::2:c903:0:2")
	aliasGID  = mustGID("fe80::2:c903:0:a1") // another of the bridge's
	node4GID  = mustGID("fe80::2:c903:0:4")  // has only an IPv4 address
	peerGID   = mustGID("fe80::2:c903:0:b")  // another bridge
	localGID  = mustGID("fe80::2:c903:0:c")  // the node with a link-local address
)

const (
	hostQPN  = ib.QPN(0x456)
	nodeQPN  = ib.QPN(0x123)
	proxyQPN = ib.QPN(0x700) // and the following ones
	proxyQP  = uint32(40)    // and the following ones

	bridgeLID = ib.LID(4) // and 5
	nodeLID   = ib.LID(7)
	node4LID  = ib.LID(8) // and the three following ones
	peerLID   = ib.LID(12)
	localLID  = ib.LID(13) // a router's

	hostQKey  = ib.QKey(0x00112233) // of the host's QP: answers to it must carry this one
	groupRoCE = ib.QKeyRDMAUDP      // Q_Key of the groups on Ethernet
	groupIB   = ib.QKey(0x0badcafe) // and on InfiniBand, where it is another
)

// The groups, one of each kind.
var (
	group4    = netip.MustParseAddr("239.1.2.3")    // both ways, RoCEv2, immediate rewritten
	group6    = netip.MustParseAddr("ff15::1:2:3")  // both ways, RoCEv2
	group1    = netip.MustParseAddr("239.129.2.4")  // both ways, RoCEv1: all 28 bits differ from its MAC's 23
	groupOut  = netip.MustParseAddr("239.1.2.5")    // towards IB only
	groupIn   = netip.MustParseAddr("239.1.2.6")    // towards RoCE only
	groupMDNS = netip.MustParseAddr("224.0.0.251")  // a link-local group that is configured
	noGroup   = netip.MustParseAddr("239.1.2.99")   // not bridged
	control4  = netip.MustParseAddr("224.0.0.5")    // link-local, not bridged
	control6  = netip.MustParseAddr("ff02::5")      // the same
	noGroup6  = netip.MustParseAddr("ff15::1:2:99") // not bridged
	plainOnly = netip.MustParseAddr("239.1.2.7")    // of plain UDP alone
)

func mustGID(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// The ports of plain UDP.
const (
	plainPort  = uint16(4711) // both ways: group4, which RoCE has, too; group6; plainOnly
	plainOut   = uint16(4712) // of group4, towards IB only
	noPort     = uint16(4713) // not bridged
	plainTTL   = uint8(17)
	plainToIB  = 1000 // largest payload towards IB
	plainToEth = 900  // and from there
)

// plainMGID is the MGID of a group of plain UDP.
func plainMGID(group netip.Addr, port uint16) ib.GID {
	g := mgidOf(group)
	g[8], g[9] = byte(port>>8), byte(port)
	return g
}

func mgidOf(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, ib.PKeyDefault, ib.ScopeLinkLocal) }

// smallFixture is one RoCE host, which uses IPv4, IPv6 and RoCEv1, some nodes, and the groups.
func smallFixture() *fixture {
	w := &fixture{config: lcore.DatapathConfig{
		MAC: bridgeMAC, RoCEPKey: ib.PKeyDefault, RewriteImm: true,
		Segment: lcore.Segment{RoCEMTU: 4096, Versions: lcore.V1 | lcore.V2, TTL: 64, Addresses: []netip.Prefix{bridgeIP, bridgeIP6}},
		Policy:  lcore.Policy{Allow: []netip.Prefix{bridgeIP.Masked(), bridgeIP6.Masked(), localNet}},
	}}
	w.own = tables.Own{LID: bridgeLID, LMC: 1, GIDs: []ib.GID{bridgeGID, aliasGID}}
	for sl := range w.config.DSCPOfSL {
		w.config.DSCPOfSL[sl], w.config.PCPOfSL[sl] = uint8(sl&7)<<3, uint8(sl&7)
	}
	for dscp := range w.config.SLOfDSCP {
		w.config.SLOfDSCP[dscp] = ib.SL(dscp >> 3)
	}
	w.addHost(hostIP, lcore.V2)
	w.addHost(hostIP6, lcore.V2)
	w.addHost(hostLocal, lcore.V1)
	w.nodes = []tables.Node{
		{IP4: nodeIP, IP6: nodeIP6, GID: nodeGID, LID: nodeLID, SL: 2, HopLimit: 1},
		{IP4: netip.MustParseAddr("10.10.0.4"), GID: node4GID, LID: node4LID, LMC: 2, SL: 5, MTU: 2048, Rate: 3, HopLimit: 0, GRH: true},
		{IP4: netip.MustParseAddr("10.10.0.11"), IP6: netip.MustParseAddr("2001:db8::b"), GID: peerGID, LID: peerLID, Bridge: true},
		{IP6: nodeLocal, GID: localGID, LID: localLID, Rate: 16, HopLimit: 9, GRH: true},
	}
	w.groups = []tables.Group{
		{IP: group4, Version: lcore.V2, ToIB: true, ToRoCE: true, RewriteImm: true, SL: 3, HopLimit: 7, Rate: 3},
		{IP: group6, Version: lcore.V2, ToIB: true, ToRoCE: true},
		{IP: group1, Version: lcore.V1, ToIB: true, ToRoCE: true},
		{IP: groupOut, Version: lcore.V2, ToIB: true},
		{IP: groupIn, Version: lcore.V2, ToRoCE: true},
		{IP: groupMDNS, Version: lcore.V2, ToIB: true, ToRoCE: true},
	}
	for i := range w.groups {
		g := &w.groups[i]
		g.MGID, g.MLID, g.QKey, g.RoCEQKey = mgidOf(g.IP), ib.LID(0xc001+i), groupIB, groupRoCE
		g.MTUToIB, g.MTUToRoCE = 2048, 1024
	}
	w.addPlain()
	return w
}

// addHost adds a host and the proxy QP of its QP.
func (w *fixture) addHost(ip netip.Addr, version uint8) {
	n := len(w.proxyQPs)
	w.hosts = append(w.hosts, tables.Host{IP: ip, MAC: hostMAC, Version: version, VLAN: w.config.VLAN})
	w.proxyQPs = append(w.proxyQPs, tables.ProxyQP{
		HostQP: tables.HostQP{Host: ip, HostQPN: hostQPN}, QP: proxyQP + uint32(n), QPN: proxyQPN + ib.QPN(n), QKey: hostQKey, Version: version,
		Source: uint8(n),
	})
}

// addPlain adds groups of plain UDP, and what the host sends to them from. Their order is behind what tests number.
func (w *fixture) addPlain() {
	for i, ip := range []netip.Addr{hostIP, hostIP6} {
		n := uint32(len(w.proxyQPs))
		w.proxyQPs = append(w.proxyQPs, tables.ProxyQP{
			HostQP: tables.HostQP{Host: ip, HostQPN: tables.PlainQPN}, QP: proxyQP + n, QPN: proxyQPN + ib.QPN(n), QKey: hostQKey, Version: tables.PlainUDP, Source: uint8(i),
		})
	}
	for i, a := range []tables.GroupAddr{{IP: group4, UDPPort: plainPort}, {IP: group4, UDPPort: plainOut}, {IP: group6, UDPPort: plainPort},
		{IP: plainOnly, UDPPort: plainPort}} {
		w.groups = append(w.groups, tables.Group{
			IP: a.IP, UDPPort: a.UDPPort, Version: tables.PlainUDP, TTL: plainTTL, ToIB: true, ToRoCE: a.UDPPort != plainOut, SL: 4, HopLimit: 9,
			MGID: plainMGID(a.IP, a.UDPPort), MLID: ib.LID(0xc101 + i), QKey: groupIB, MTUToIB: plainToIB, MTUToRoCE: plainToEth,
		})
	}
}

// with returns the fixture with a change.
func (w *fixture) with(change func(*fixture)) *fixture {
	if change != nil {
		change(w)
	}
	return w
}

// onVLAN moves the RoCE side to a VLAN.
func (w *fixture) onVLAN(vlan uint16) {
	w.config.VLAN = vlan
	for i := range w.hosts {
		w.hosts[i].VLAN = vlan
	}
	for i := range w.groups {
		w.groups[i].VLAN = vlan
	}
}

// populate writes the fixture's entries to the tables.
func (w *fixture) populate(t *tables.Tables) error {
	if err := t.Nodes.SetOwn(w.own); err != nil {
		return err
	}
	for _, n := range w.nodes {
		if _, err := t.Nodes.Put(n); err != nil {
			return err
		}
	}
	if w.second != nil {
		if err := w.second.populateSegment(t.In(1)); err != nil {
			return err
		}
	}
	return w.populateSegment(t.In(0))
}

func (w *fixture) populateSegment(t *tables.Segment) error {
	for _, h := range w.hosts {
		if _, err := t.Hosts.Put(h); err != nil {
			return err
		}
	}
	for _, s := range w.proxyQPs {
		if _, err := t.ProxyQPs.Put(s); err != nil {
			return err
		}
	}
	for _, g := range w.groups {
		if _, err := t.Groups.Put(g); err != nil {
			return err
		}
	}
	return nil
}

func (w *fixture) proxyQP(host netip.Addr, qpn ib.QPN) *tables.ProxyQP {
	i := slices.IndexFunc(w.proxyQPs, func(s tables.ProxyQP) bool { return s.Host == host && s.HostQPN == qpn })
	if i < 0 {
		return nil
	}
	return &w.proxyQPs[i]
}

// group returns the RoCE group of an address.
func (w *fixture) group(ip netip.Addr) *tables.Group { return w.groupAt(tables.GroupAddr{IP: ip}) }

func (w *fixture) groupAt(a tables.GroupAddr) *tables.Group {
	i := slices.IndexFunc(w.groups, func(g tables.Group) bool { return g.Addr() == a })
	if i < 0 {
		return nil
	}
	return &w.groups[i]
}
