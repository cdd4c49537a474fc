// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/app/command"
	"causeway/app/command/commandtest"
	"causeway/app/logs"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// fake is a bridge in which no counter is zero.
type fake struct {
	ready  bool
	still  bool // one of the two workers does not move
	closed bool
	link   link.State
	ibDown string
	limits []bridge.Limit
	memif  bool // nobody counts what the port misses
	loops  *atomic.Uint64
}

func newFake() fake { return fake{ready: true, loops: new(atomic.Uint64)} }

// options are the server's options for a running bridge.
func options() Options {
	c := &config.Config{Workers: config.Workers{Hosts: 91, Groups: 92, ProxyQPs: 93}}
	console := twoPorts{commandtest.New(30)}
	return Options{Name: `a "b" \ c`, Version: "v1.2.3", DPDK: "DPDK 22.11.11", Started: time.Unix(1700000000, 5e8),
		Env: &command.Env{Bridge: console, Sampler: command.NewSampler(console)}, Events: someEvents, LogLost: func() uint64 { return 94 },
		Config: func() *config.Config { return c }}
}

// twoPorts is a console's bridge with the Ethernet ports of the fake.
type twoPorts struct{ *commandtest.Fake }

func (twoPorts) EthernetPorts() []bridge.EthernetPort { return newFake().EthernetPorts() }

// someEvents has an event with what a peer could have sent.
func someEvents(int) []logs.Event {
	at := time.Unix(1700000000, 0)
	return []logs.Event{{At: at, Level: slog.LevelInfo, Name: "ready"}, {At: at, Level: slog.LevelWarn, Name: "group_rejected", Details: hostile}}
}

// hostile is text that would be a script if it were not escaped.
const hostile = `"><script>document.title = "hostile"</script>`

func (f fake) Workers() []lcore.Counters {
	if f.closed {
		return nil
	}
	n := f.loops.Add(1)
	moving, still := lcore.Counters{Loops: n, Busy: 5, Sleeps: 81, Overslept: 82}, lcore.Counters{Loops: 7}
	if !f.still {
		still.Loops = n
	}
	moving.Direction[lcore.RoCEToIB] = lcore.DirectionCounters{Received: 10, Sent: 7, Drops: map[lcore.Drop]uint64{lcore.DropProxyQPFull: 3}}
	return []lcore.Counters{moving, still}
}

func (fake) Latency() [][2]lcore.Latency {
	all := make([][2]lcore.Latency, 2)
	all[0][lcore.RoCEToIB].Record(90*time.Nanosecond, 2)
	all[1][lcore.RoCEToIB].Record(3*time.Microsecond, 4)
	all[1][lcore.RoCEToIB].Record(time.Second, 1)
	return all
}

func (f fake) ListGroups(context.Context, manage.Query) (manage.List[manage.GroupEntry], error) {
	at := func(ip, state string) manage.GroupEntry {
		return manage.GroupEntry{Group: manage.Group{IP: netip.MustParseAddr(ip)}, State: state, Learned: ip == "239.1.2.9"}
	}
	return manage.List[manage.GroupEntry]{Entries: []manage.GroupEntry{at("239.1.2.3", "joined"), at("239.1.2.4", "joining"), at("239.1.2.9", "joining")}}, nil
}

func (f fake) ListNodes(context.Context, manage.Query) (manage.List[manage.NodeEntry], error) {
	nodes := []manage.NodeEntry{{IP4: netip.MustParseAddr("10.9.0.7"), IP6: netip.MustParseAddr("fd09::7")}, {IP6: netip.MustParseAddr("fd09::8"), Resolved: true}}
	return manage.List[manage.NodeEntry]{Entries: nodes}, nil
}

func (fake) Counters() (c lcore.Counters) {
	c.Direction[lcore.RoCEToIB] = lcore.DirectionCounters{
		Received: 10, Sent: 7, SentBytes: 700, CongestionMarked: 1, ReservedBits: 2, ProxyQPWaits: 4, Handoffs: 5,
		Drops: map[lcore.Drop]uint64{lcore.DropProxyQPFull: 3},
	}
	c.Direction[lcore.IBToRoCE] = lcore.DirectionCounters{Received: 8, Sent: 8, SourceBridged: 6, GroupCopies: 5}
	c.Punt = lcore.PuntCounters{Received: 11, Full: 12, Sent: 13, Rejected: 14, Fenced: 15}
	return c
}

func (f fake) Status() manage.Status {
	return manage.Status{Ready: f.ready, Waiting: 1, Hosts: 2, Nodes: 3, Groups: 4, ProxyQPs: 5, ProxyQPsMost: 93, Asked: [2]int{71, 72},
		Segments: []manage.SegmentStatus{{Name: "VLAN 100", Hosts: 101, HostsMax: 102, ProxyQPs: 103, MostQPs: 104, Groups: 105}}, Counters: manage.Counters{
			Services:      [2]manage.ServiceCounts{{manage.ServiceAnswered: 73}, {manage.ServiceNoProxyQP: 74}},
			FrameCounters: manage.FrameCounters{Malformed: map[string]uint64{"arp_bad": 23, "vlan_double": 24}},
			HostCounters: manage.HostCounters{
				ARPAnswered: 21, Spoofs: 22, HostsRejected: 25, HostFlaps: 81, HostConflicts: 82, HostsAged: 83, HostsSilent: 84,
				AddressesDefended: 85, NodesAbsent: 86,
			},
		}}
}

func (f fake) Ethernet() (dpdk.Stats, bool) {
	if f.memif {
		return dpdk.Stats{RxMissedUnknown: true}, f.link.Up()
	}
	return dpdk.Stats{RxPackets: 31, TxPackets: 32, RxMissed: 33, RxNoMbuf: 34}, f.link.Up()
}

func (f fake) Limits() []bridge.Limit { return f.limits }

func (f fake) InfiniBandDown() string { return f.ibDown }

func (f fake) Link() link.State { return f.link }

func (fake) Memory() bridge.Memory { return bridge.Memory{Packets: 88, PacketsUsed: 87} }

func (fake) Groups() map[bridge.GroupPlace]lcore.GroupCounters {
	return map[bridge.GroupPlace]lcore.GroupCounters{
		{IP: netip.MustParseAddr("239.1.2.3")}:                       {Packets: [2]uint64{41, 42}, Bytes: [2]uint64{43, 44}},
		{IP: netip.MustParseAddr("ff15::1")}:                         {},
		{IP: netip.MustParseAddr("239.1.2.3"), Segments: "VLAN 100"}: {Packets: [2]uint64{45, 46}},
	}
}

func (fake) Bond() (mode string, members []bridge.BondMember) {
	m := bridge.BondMember{Port: "af_packet:eth1", Stats: dpdk.Stats{RxPackets: 95, TxPackets: 96}, BondCounters: dpdk.BondCounters{Inactive: 97, SlowLost: 98}}
	m.Name, m.Up, m.Carries, m.Changes = "eth1", true, true, 99
	m.Protocol.Received, m.Protocol.Sent = 100, 101
	failed := m
	failed.Name, failed.Up, failed.Carries, failed.Why = "eth2", false, false, "it has no carrier"
	return "lacp", []bridge.BondMember{m, failed}
}

func (fake) PGM() (t pgm.Totals, enabled bool) {
	t.Direction[lcore.IBToRoCE].Counts[pgm.Missed] = 61
	t.Direction[lcore.RoCEToIB].Faults[1] = 62
	t.Streams = 63
	return t, true
}

func (fake) LostByDevice() map[string]uint64 {
	return map[string]uint64{"out_of_buffer": 42, "send_err": 0}
}

func (fake) Lost() [2]map[string]uint64 {
	return [2]map[string]uint64{lcore.IBToRoCE: {"port_full": 51, "no_qp": 52}}
}

func (fake) Services() (requests, connects map[string]uint64) {
	return map[string]uint64{"accepted": 71}, map[string]uint64{"ok": 72, "rejected": 73}
}
