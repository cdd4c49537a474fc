// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// A shape says what is in the tables and what the packets look like. Numbers are powers of 2: addresses differ in their
// low bits, and the tables have an entry for every value of those.
type shape struct {
	hosts   int  // RoCE hosts of each lane
	qpns    int  // QPs of each host, every one with a proxy QP
	nodes   int  // IB nodes
	groups  int  // 0: the packets are unicast
	six     bool // IPv6
	vlan    uint16
	marked  bool // packets carry a DSCP, and the bridge maps them to service levels
	bare    bool // bare workers, and no QoS map
	policed bool // groups are policed at a rate that they never reach
	member  bool // of a fleet
	lanes   int  // workers, each with its own hosts and proxy QPs; 0: one

	mirror *lcore.MirrorOptions // nil: none
	whole  *whole               // whose pool and IB port the lane has; nil: its own

	foreign int // of 16 hosts of a lane, so many have their proxy QPs at the next lane's worker
	flight  int // packets in a lane; 0: inFlight
}

// square is the usual shape: the same number of hosts, proxy QPs and nodes.
func square(entries int) shape { return shape{hosts: entries, qpns: 1, nodes: entries} }

func (s shape) proxyQPs() int   { return s.hosts * s.qpns }
func (s shape) workers() int    { return max(1, s.lanes) }
func (s shape) sources() int    { return max(s.hosts, s.qpns) } // either is 1
func (s shape) multicast() bool { return s.groups > 0 }

// inRing is how many packets lie in a lane's ring: those from an HCA lie in its buffers.
func (s shape) inRing(d lcore.Direction) int {
	if d == lcore.IBToRoCE && s.whole != nil && s.whole.hca != nil {
		return 0
	}
	return s.packets()
}

// packets is how many circulate in a lane.
func (s shape) packets() int {
	if s.flight > 0 {
		return s.flight
	}
	return inFlight
}

// owner is the worker that has the proxy QPs of host i.
func (s shape) owner(i int) int {
	lane := i / s.hosts
	if i%16 < s.foreign {
		lane++
	}
	return lane % s.workers()
}

// destinations of RoCE packets.
func (s shape) destinations() int {
	if s.multicast() {
		return s.groups
	}
	return s.nodes
}

var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 2}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}
)

// Where the numbered addresses begin; there is room for 2^20 of each.
const (
	host4  = 0x0a10_0000 // 10.16.0.0
	node4  = 0x0a20_0000 // 10.32.0.0
	group4 = 0xef10_0000 // 239.16.0.0
	hosts6 = 1           // fd09:0:0:1::
	nodes6 = 2

	proxyQPN = 0x10_0000
	hostQPN  = 0x20_0000
	nodeQPN  = 0x123
	nodeHops = 1 // of paths to nodes
	dscp     = 46
)

func ip4(base, i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(base+i))))
}

func ip6(network uint16, i int) netip.Addr {
	a := [16]byte{0: 0xfd, 1: 9}
	binary.BigEndian.PutUint16(a[6:], network)
	binary.BigEndian.PutUint32(a[12:], uint32(i))
	return netip.AddrFrom16(a)
}

func (s shape) hostIP(i int) netip.Addr {
	if s.six {
		return ip6(hosts6, i)
	}
	return ip4(host4, i)
}

func (s shape) nodeIP(i int) netip.Addr {
	if s.six {
		return ip6(nodes6, i)
	}
	return ip4(node4, i)
}

func groupIP(i int) netip.Addr { return ip4(group4, i) }

func nodeGID(i int) ib.GID {
	return ib.GIDFromGUID(0xfe80_0000_0000_0000, ib.GUID(0x0002_c903_0000_0000|uint64(i)))
}

// bridgeGID is no node's.
var bridgeGID = nodeGID(0xffff_ffff)

func mgid(i int) ib.GID { return ib.MGIDRDMACM(groupIP(i), ib.PKeyDefault, ib.ScopeLinkLocal) }

// lid has 32768 values: with more nodes, several share one, as nodes behind a router do.
func lid(i int) ib.LID { return ib.LID(1 + i&0x7fff) }

// newTables makes and fills tables.
func (s shape) newTables() (*tables.Tables, error) {
	all := s.workers() * s.hosts
	t, err := tables.New(tables.Config{
		MaxHosts: all, MaxProxyQPs: all * s.qpns, MaxNodes: s.nodes, MaxGroups: max(1, s.groups), MaxReaders: s.workers(),
	})
	if err != nil {
		return nil, err
	}
	if err := s.fill(t); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (s shape) fill(t *tables.Tables) error {
	for i := range s.workers() * s.hosts {
		if _, err := t.Hosts.Put(tables.Host{IP: s.hostIP(i), MAC: hostMAC, VLAN: s.vlan, Version: lcore.V2}); err != nil {
			return err
		}
		for q := range s.qpns {
			handle, qpn := s.proxyQP(i*s.qpns + q)
			_, err := t.ProxyQPs.Put(tables.ProxyQP{
				HostQP: tables.HostQP{Host: s.hostIP(i), HostQPN: ib.QPN(hostQPN + q)}, QP: handle, QPN: qpn,
				QKey: ib.QKeyRDMAUDP, Version: lcore.V2, Worker: s.owner(i),
			})
			if err != nil {
				return err
			}
		}
	}
	for i := range s.nodes {
		n := tables.Node{GID: nodeGID(i), LID: lid(i), HopLimit: nodeHops, GRH: true}
		if s.six {
			n.IP6 = s.nodeIP(i)
		} else {
			n.IP4 = s.nodeIP(i)
		}
		if _, err := t.Nodes.Put(n); err != nil {
			return err
		}
	}
	return s.fillGroups(t)
}

// proxyQP is the IB port's handle and number of a proxy QP.
func (s shape) proxyQP(n int) (handle uint32, qpn ib.QPN) {
	if s.whole != nil && s.whole.hca != nil {
		return s.whole.hca.proxyQP(n)
	}
	return uint32(n), ib.QPN(proxyQPN + n)
}

func (s shape) fillGroups(t *tables.Tables) error {
	for i := range s.groups {
		_, err := t.Groups.Put(tables.Group{
			IP: groupIP(i), MGID: mgid(i), MLID: ib.LID(0xc000 + i), QKey: ib.QKeyRDMAUDP, RoCEQKey: ib.QKeyRDMAUDP, HopLimit: 64,
			MTUToIB: lcore.MaxPayload, MTUToRoCE: lcore.MaxPayload, VLAN: s.vlan, Version: lcore.V2, ToIB: true, ToRoCE: true,
			Policed: s.policed,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// config is the datapath's configuration.
func (s shape) config() lcore.DatapathConfig {
	cfg := lcore.DatapathConfig{
		MAC: bridgeMAC, RoCEPKey: ib.PKeyDefault,
		Segment: lcore.Segment{
			VLAN: s.vlan, RoCEMTU: lcore.MaxPayload, Versions: lcore.V2, TTL: 64, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24")},
		},
		Policy: lcore.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd09::/16")}},
	}
	if s.member {
		cfg.VirtualMAC = virtualMAC
	}
	if s.marked && !s.bare {
		for i := range cfg.SLOfDSCP {
			cfg.SLOfDSCP[i] = ib.SL(1 + i/8)
		}
		for i := range cfg.DSCPOfSL {
			cfg.DSCPOfSL[i], cfg.PCPOfSL[i] = uint8(i)*4, uint8(i)/2
		}
	}
	return cfg
}

// packet is the first RoCE packet of a lane; the others differ in the low bits of their addresses.
func (s shape) packet(lane, size int) roce.Packet {
	p := roce.Packet{
		Version: 2, Dst: s.stationMAC(), Src: hostMAC, SrcIP: s.hostIP(lane * s.hosts), DstIP: s.nodeIP(0), HopLimit: 64, SrcPort: 0xc000,
		PKey: ib.PKeyDefault, DestQP: nodeQPN, QKey: ib.QKeyRDMAUDP, SrcQP: hostQPN, Payload: payload(size),
	}
	if s.multicast() {
		p.DstIP, p.DestQP = groupIP(0), ib.QPMulticast
		p.Dst = frame.GroupMAC(p.DstIP)
	}
	if s.vlan != 0 {
		p.Tag = &frame.VLANFields{VID: s.vlan}
	}
	if s.marked {
		p.TClass = dscp << 2
	}
	return p
}

// data is what is in the mbuf of the first packet of a lane: a frame, or a message behind an empty GRH.
func (s shape) data(lane int, d lcore.Direction, size int) []byte {
	p := s.packet(lane, size)
	if d == lcore.IBToRoCE {
		return append(make([]byte, ib.GRHLen), p.Payload...)
	}
	return p.AppendTo(nil)
}

// grh is the GRH of the first message from IB: five words in wire order.
func (s shape) grh(size int) (words [5]uint64) {
	b := make([]byte, ib.GRHLen)
	f := ib.GRHFields{PayLen: ib.BTHLen + ib.DETHLen + size + ib.ICRCLen, HopLimit: 64, SGID: nodeGID(0), DGID: bridgeGID}
	if s.multicast() {
		f.DGID = mgid(0)
	}
	if s.marked {
		f.TClass = dscp << 2
	}
	ib.PutGRH(b, f)
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return words
}

func payload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}
