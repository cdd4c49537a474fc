// SPDX-License-Identifier: Apache-2.0

// Package commandtest provides a fake bridge for tests of commands, with a few entries in each table.
package commandtest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/config"
	"causeway/dpdk"
	"causeway/dpdk/lacp"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// Fake is a command.Target with Hosts hosts and as many proxy QPs.
type Fake struct {
	ports
	fleet
	Hosts int
	Cfg   *config.Config

	before *config.Config
	notes
	mu       sync.Mutex
	injected [2]lcore.Injection
	Drained  bool
}

// ports are its ports.
type ports struct{}

// notes are the changes, in order, and whether the last is pending.
type notes struct {
	mu    sync.Mutex
	list  []string
	until time.Time // of the pending change
}

// New returns a fake with so many hosts, and a configuration.
func New(hosts int) *Fake {
	cfg, err := config.Parse("test.toml", []byte(`[bridge]
name = "test"
[roce]
port = "ring"
addresses = ["10.9.0.254/16"]
mtu = 4200
[ib]
port = "fabric:"
[[group]]
ip = "239.1.2.3"
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[service]]
port = 7175
[[translate]]
roce = "10.9.1.0/24"
ib = "10.10.1.0/24"
[policy]
allow = ["10.9.0.0/16"]
[console]
token = "a-secret-of-some-length"
`))
	if err != nil {
		panic(err)
	}
	return &Fake{Hosts: hosts, Cfg: cfg}
}

// Config returns the configuration.
func (f *Fake) Config() *config.Config { return f.Cfg }

// Status implements command.Target.
func (f *Fake) Status() manage.Status {
	s := manage.Status{Ready: !f.Drained, Drained: f.Drained, Hosts: f.Hosts, Nodes: 1, Groups: 1, ProxyQPs: f.Hosts, Joined: []manage.JoinedGroup{{IP: netip.MustParseAddr("239.1.2.3")}},
		Segments: []manage.SegmentStatus{{Name: "untagged", Hosts: f.Hosts, HostsMax: 100, ProxyQPs: f.Hosts, MostQPs: 100, Groups: 1}}}
	if f.Cfg != nil {
		for _, r := range f.Cfg.More {
			s.Segments = append(s.Segments, manage.SegmentStatus{Number: uint8(len(s.Segments)), Name: r.Name(), Place: manage.Place{VLAN: r.VLAN}, PKey: r.PKey, HostsMax: 100, MostQPs: 100})
		}
	}
	return s
}

// Counters implements command.Target: a thousand packets received more at each call.
func (f *Fake) Counters() lcore.Counters {
	c := lcore.Counters{Loops: 10, Busy: 5}
	icrc, _ := lcore.DropNamed("icrc")
	for d := range c.Direction {
		c.Direction[d] = lcore.DirectionCounters{Received: 1000, Sent: 990, SentBytes: 64 * 990, Drops: map[lcore.Drop]uint64{icrc: 10}}
	}
	return c
}

// Workers implements command.Target.
func (f *Fake) Workers() []lcore.Counters { return []lcore.Counters{f.Counters()} }

// WorkerCPUs implements command.Target.
func (f *Fake) WorkerCPUs() []int { return []int{3} }

var began = time.Now()

// Cores returns what show cores shows: a worker that takes all of its core, and management half of another.
func (ports) Cores() []bridge.Core {
	ran := time.Since(began)
	return []bridge.Core{
		{Lcore: uint(0), Role: "main"}, {Lcore: uint(3), Role: "worker 0", Threads: 1, CPUs: []int{5}, Node: 1, Ran: ran},
		{Lcore: uint(4), Role: "management", Threads: 1, CPUs: []int{6}, Node: 1, Ran: ran / 2}, {Role: "others", Threads: 7},
	}
}

// Bond returns what show bond shows: a member that carries frames, and one whose other end has fallen silent.
func (ports) Bond() (mode string, members []bridge.BondMember) {
	for i, name := range []string{"eth1", "eth2"} {
		m := bridge.BondMember{Port: "af_packet:" + name, Stats: dpdk.Stats{RxPackets: 1000, TxPackets: 900}}
		m.Name, m.Up, m.Carries, m.Since, m.Changes = name, true, i == 0, began, 1
		m.Protocol = lacp.Port{Receiving: lacp.Current, Selected: true, Received: 60, Sent: 61,
			Actor:   lacp.End{Key: lacp.Key, Port: uint16(i + 1), State: 0x3f},
			Partner: lacp.End{SystemPriority: 0x8000, System: [6]byte{2, 0, 0, 0, 0, 0xaa}, Key: 15, Port: uint16(i + 7), State: 0x3f}}
		if i == 1 {
			m.Why, m.Changes, m.Inactive = "no LACPDU has come for three seconds, or none yet", 2, 5
			m.Protocol.Receiving, m.Protocol.Selected, m.Protocol.Actor.State = lacp.WasCurrent, false, 0x87
		}
		members = append(members, m)
	}
	return "lacp", members
}

// Places returns what show memory shows of places.
func (ports) Places() []bridge.Place {
	return []bridge.Place{{What: "packets", Bytes: 1 << 20, Node: 1}, {What: "worker 0"}, {What: "DPDK in all", Bytes: 1 << 30, Node: 1, Page: 1 << 30}}
}

// Ethernet implements command.Target.
func (ports) Ethernet() (dpdk.Stats, bool) { return dpdk.Stats{RxPackets: 1000}, true }

// Link implements command.Target.
func (ports) Link() link.State { return link.State{} }

func (ports) InfiniBandDown() string { return "" }

func (ports) Limits() []bridge.Limit { return nil }

// Ports implements command.Target.
func (ports) Ports() (ethernet, infiniband bridge.Port) {
	return bridge.Port{Name: "ring", MTU: 4200}, bridge.Port{Name: "fabric:", GIDs: []string{"fe80::1"}, MTU: 4096}
}

// Memory implements command.Target.
func (f *Fake) Memory() bridge.Memory { return bridge.Memory{Packets: 2048, PacketsUsed: 5} }

// Groups implements command.Target.
func (f *Fake) Groups() map[bridge.GroupPlace]lcore.GroupCounters {
	return map[bridge.GroupPlace]lcore.GroupCounters{{IP: netip.MustParseAddr("239.1.2.3")}: {Packets: [2]uint64{7, 8}}}
}

// Lost implements command.Target.
func (f *Fake) Lost() [2]map[string]uint64 { return [2]map[string]uint64{{"queue": 3}, nil} }

// LostByDevice implements command.Target.
func (f *Fake) LostByDevice() map[string]uint64 { return map[string]uint64{"out_of_buffer": 4} }

// Services implements command.Target.
func (f *Fake) Services() (requests, connects map[string]uint64) {
	return map[string]uint64{"answered": 2}, map[string]uint64{}
}

// PGM implements command.Target.
func (f *Fake) PGM() (pgm.Totals, bool) { return pgm.Totals{}, true }

// Streams implements command.Target.
func (f *Fake) Streams() []pgm.Stream { return []pgm.Stream{{Begun: true}} }

// Rules implements command.Target.
func (f *Fake) Rules() []dpdk.Rule { return []dpdk.Rule{{Match: dpdk.MatchRoCEv2IPv4}} }

// HostIP is the address of host i.
func HostIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}) }

// list applies entry to each host that q selects.
func list[T any](f *Fake, q manage.Query, entry func(netip.Addr) T) (l manage.List[T], err error) {
	for i := range f.Hosts {
		if ip := HostIP(i); !q.In.IsValid() || q.In.Contains(ip) {
			l.Total++
			if q.Limit == 0 || len(l.Entries) < q.Limit {
				l.Entries = append(l.Entries, entry(ip))
			}
		}
	}
	return l, nil
}

// ListHosts implements command.Target.
func (f *Fake) ListHosts(_ context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return list(f, q, func(ip netip.Addr) manage.HostEntry {
		return manage.HostEntry{IP: ip, MAC: frame.MAC{2, 0, 0, 0, 0, 1}, Version: 2, State: manage.HostReachable, Heard: time.Now()}
	})
}

// ListNeighbours implements command.Target.
func (f *Fake) ListNeighbours(ctx context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return f.ListHosts(ctx, q)
}

// QKey is that of all proxy QPs.
const QKey ib.QKey = 0x2468ace

// ListProxyQPs implements command.Target.
func (f *Fake) ListProxyQPs(_ context.Context, q manage.Query) (manage.List[manage.ProxyQPEntry], error) {
	return list(f, q, func(ip netip.Addr) manage.ProxyQPEntry {
		return manage.ProxyQPEntry{Host: ip, HostQPN: 17, QPN: 99, QKey: QKey}
	})
}

// ListNodes implements command.Target.
func (f *Fake) ListNodes(context.Context, manage.Query) (manage.List[manage.NodeEntry], error) {
	return manage.List[manage.NodeEntry]{Entries: []manage.NodeEntry{{IP4: netip.MustParseAddr("10.9.0.7"), LID: 5, Resolved: true}}, Total: 1}, nil
}

// ListGroups implements command.Target.
func (f *Fake) ListGroups(context.Context, manage.Query) (manage.List[manage.GroupEntry], error) {
	g := manage.GroupEntry{Group: manage.Group{IP: netip.MustParseAddr("239.1.2.3"), ToIB: true, ToRoCE: true}, State: "joined"}
	return manage.List[manage.GroupEntry]{Entries: []manage.GroupEntry{g}, Total: 1}, nil
}

// ListRequests implements command.Target.
func (f *Fake) ListRequests(context.Context, manage.Query) (manage.List[manage.RequestEntry], error) {
	return manage.List[manage.RequestEntry]{Entries: []manage.RequestEntry{{From: HostIP(1), To: HostIP(2), Port: 7174, Waits: "an answer"}}, Total: 1}, nil
}

// RemoveLearnedHost implements command.Target.
func (f *Fake) RemoveLearnedHost(_ context.Context, _ uint8, ip netip.Addr) (bool, error) {
	f.note("remove learned host %v", ip)
	return true, nil
}

// RemoveProxyQPs implements command.Target. Host 9 has none.
func (f *Fake) RemoveProxyQPs(_ context.Context, _ uint8, host netip.Addr, qpn ib.QPN) (int, error) {
	f.note("remove proxy QPs %v %v", host, qpn)
	if host == HostIP(9) {
		return 0, nil
	}
	return 2, nil
}

// Latency has one packet in each direction.
func (f *Fake) Latency() [][2]lcore.Latency {
	all := make([][2]lcore.Latency, 1)
	for d := range all[0] {
		all[0][d].Record(3*time.Microsecond, 1)
	}
	return all
}

// RefreshSubnet notes the call.
func (f *Fake) RefreshSubnet() error {
	f.note("clear subnet")
	return nil
}

// ClearLatency notes the call.
func (f *Fake) ClearLatency() { f.note("clear latency") }

// Inject notes the call and keeps the injection.
func (f *Fake) Inject(d lcore.Direction, i lcore.Injection, lasts time.Duration) error {
	if err := i.Validate(); err != nil {
		return err
	}
	f.note("inject %v drop %v for %v", d, i.Drop, lasts)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injected[d] = i
	return nil
}

// InjectionsEnd returns that nothing ends by itself.
func (f *Fake) InjectionsEnd() [2]time.Time { return [2]time.Time{} }

// Injections returns what was injected.
func (f *Fake) Injections() [2]lcore.Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// Sample is Mirror.
func (f *Fake) Sample(ctx context.Context, filter lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	return f.Mirror(ctx, filter, snap, see)
}

// Mirror mirrors packets of the first hosts, a thousand a second, until ctx ends.
func (f *Fake) Mirror(ctx context.Context, _ lcore.Filter, _ int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	for i := 0; ctx.Err() == nil; i++ {
		gid := ib.GIDFromAddr(HostIP(i % 3))
		if !see(lcore.MirroredPacket{Time: time.Now(), Packet: uint64(i), Direction: lcore.IBToRoCE, Point: lcore.Received, Side: lcore.IBSide, IB: &lcore.MirroredIB{SGID: gid}}) {
			return 0, nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, nil
}

func (f *notes) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// Notes returns the changes so far.
func (f *notes) Notes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// follow makes a configuration the one in force.
func (f *Fake) follow(to *config.Config, err error) (config.Changes, error) {
	if err != nil {
		return nil, err
	}
	changes := config.Diff(f.Cfg, to)
	f.Cfg = to
	return changes, nil
}

// Add adds entries to the configuration.
func (f *Fake) Add(_ context.Context, entries string) (config.Changes, error) {
	return f.follow(f.Cfg.Extend(entries))
}

// SetGroups changes the configuration's groups.
func (f *Fake) SetGroups(_ context.Context, groups []config.Group) (config.Changes, error) {
	return f.follow(f.Cfg.WithGroups(groups))
}

// RemoveGroup removes a group from the configuration.
func (f *Fake) RemoveGroup(_ context.Context, mgid ib.GID) (config.Changes, error) {
	return f.follow(f.Cfg.WithGroups(slices.DeleteFunc(slices.Clone(f.Cfg.Groups), func(g config.Group) bool { return g.MGID == mgid })))
}

// RemoveHost removes a host from the configuration.
func (f *Fake) RemoveHost(_ context.Context, ip netip.Addr, _ *config.Place) (config.Changes, error) {
	return f.follow(f.Cfg.WithHosts(slices.DeleteFunc(slices.Clone(f.Cfg.Hosts), func(h config.Host) bool { return cmp.Or(h.IP, h.IP6) == ip })))
}

// RemoveService removes a service from the configuration.
func (f *Fake) RemoveService(_ context.Context, s config.Service) (config.Changes, error) {
	return f.follow(f.Cfg.WithServices(slices.DeleteFunc(slices.Clone(f.Cfg.Services), func(o config.Service) bool { return o == s })))
}

// Drain sets Drained.
func (f *Fake) Drain(context.Context) error { f.Drained = true; return nil }

// Resume clears Drained.
func (f *Fake) Resume(context.Context) error { f.Drained = false; return nil }

// Plan returns what another configuration changes.
func (f *Fake) Plan(to *config.Config) (config.Changes, error) { return config.Diff(f.Cfg, to), nil }

// Reload takes another configuration.
func (f *Fake) Reload(_ context.Context, to *config.Config) (config.Changes, error) {
	f.before = f.Cfg
	return f.follow(to, nil)
}

// Undo changes the configuration back.
func (f *Fake) Undo(ctx context.Context) (config.Changes, error) { return f.Reload(ctx, f.before) }

// Tentatively notes the time, and makes a change that is pending for ever.
func (n *notes) Tentatively(ctx context.Context, within time.Duration, change func(context.Context) (config.Changes, error)) (config.Changes, error) {
	n.note("tentatively %v", within)
	changes, err := change(ctx)
	n.until = time.Now().Add(within)
	return changes, err
}

// Confirm ends it.
func (n *notes) Confirm(context.Context) error { n.until = time.Time{}; return nil }

// Pending returns the end of the time.
func (n *notes) Pending() (time.Time, bool) { return n.until, !n.until.IsZero() }
