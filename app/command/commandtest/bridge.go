// SPDX-License-Identifier: Apache-2.0

// Package commandtest has a bridge that commands can be tried on: it knows a little of everything.
package commandtest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"causeway/app/house"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// Bridge is a command.Bridge with Hosts hosts and as many stand-ins.
type Bridge struct {
	Hosts int
	Cfg   *config.Config

	mu       sync.Mutex
	injected [2]lcore.Injection
	Said     []string // what was changed, in order
	Drained  bool
}

// New makes a bridge with so many hosts, and a configuration.
func New(hosts int) *Bridge {
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
	return &Bridge{Hosts: hosts, Cfg: cfg}
}

// Config returns the configuration.
func (b *Bridge) Config() *config.Config { return b.Cfg }

// Status implements command.Bridge.
func (b *Bridge) Status() manage.Status {
	return manage.Status{Ready: !b.Drained, Drained: b.Drained, Hosts: b.Hosts, Nodes: 1, Groups: 1, StandIns: b.Hosts, Joined: []manage.JoinedGroup{{IP: netip.MustParseAddr("239.1.2.3")}}}
}

// Counters implements command.Bridge: a thousand packets received more at each call.
func (b *Bridge) Counters() lcore.Counters {
	c := lcore.Counters{Loops: 10, Busy: 5}
	icrc, _ := lcore.DropNamed("icrc")
	for d := range c.Direction {
		c.Direction[d] = lcore.DirectionCounters{Received: 1000, Sent: 990, SentBytes: 64 * 990, Drops: map[lcore.Drop]uint64{icrc: 10}}
	}
	return c
}

// Workers implements command.Bridge.
func (b *Bridge) Workers() []lcore.Counters { return []lcore.Counters{b.Counters()} }

// LCores implements command.Bridge.
func (b *Bridge) LCores() []uint { return []uint{3} }

// Ethernet implements command.Bridge.
func (b *Bridge) Ethernet() (dpdk.Stats, bool) { return dpdk.Stats{RxPackets: 1000}, true }

// Ports implements command.Bridge.
func (b *Bridge) Ports() (ethernet, infiniband house.Port) {
	return house.Port{Name: "ring", MTU: 4200}, house.Port{Name: "fabric:", GIDs: []string{"fe80::1"}, MTU: 4096}
}

// Memory implements command.Bridge.
func (b *Bridge) Memory() house.Memory { return house.Memory{Packets: 2048, PacketsUsed: 5} }

// Groups implements command.Bridge.
func (b *Bridge) Groups() map[netip.Addr]lcore.GroupCounters {
	return map[netip.Addr]lcore.GroupCounters{netip.MustParseAddr("239.1.2.3"): {Packets: [2]uint64{7, 8}}}
}

// Lost implements command.Bridge.
func (b *Bridge) Lost() [2]map[string]uint64 { return [2]map[string]uint64{{"queue": 3}, nil} }

// Services implements command.Bridge.
func (b *Bridge) Services() (requests, connects map[string]uint64) {
	return map[string]uint64{"answered": 2}, map[string]uint64{}
}

// PGM implements command.Bridge.
func (b *Bridge) PGM() (pgm.Totals, bool) { return pgm.Totals{}, true }

// Streams implements command.Bridge.
func (b *Bridge) Streams() []pgm.Stream { return []pgm.Stream{{Begun: true}} }

// Rules implements command.Bridge.
func (b *Bridge) Rules() []dpdk.Rule { return []dpdk.Rule{{Match: dpdk.MatchRoCEv2IPv4}} }

// HostIP is the address of host i.
func HostIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}) }

// list makes a list of what entry gives for each host that is asked for.
func list[T any](b *Bridge, q manage.Query, entry func(netip.Addr) T) (l manage.List[T], err error) {
	for i := range b.Hosts {
		if ip := HostIP(i); !q.In.IsValid() || q.In.Contains(ip) {
			l.Total++
			if q.Limit == 0 || len(l.Entries) < q.Limit {
				l.Entries = append(l.Entries, entry(ip))
			}
		}
	}
	return l, nil
}

// ListHosts implements command.Bridge.
func (b *Bridge) ListHosts(_ context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return list(b, q, func(ip netip.Addr) manage.HostEntry {
		return manage.HostEntry{IP: ip, MAC: frame.MAC{2, 0, 0, 0, 0, 1}, Version: 2, State: manage.HostReachable, Heard: time.Now()}
	})
}

// ListNeighbours implements command.Bridge.
func (b *Bridge) ListNeighbours(ctx context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return b.ListHosts(ctx, q)
}

// ListStandIns implements command.Bridge.
func (b *Bridge) ListStandIns(_ context.Context, q manage.Query) (manage.List[manage.StandInEntry], error) {
	return list(b, q, func(ip netip.Addr) manage.StandInEntry { return manage.StandInEntry{Host: ip, HostQPN: 17, QPN: 99} })
}

// ListNodes implements command.Bridge.
func (b *Bridge) ListNodes(context.Context, manage.Query) (manage.List[manage.NodeEntry], error) {
	return manage.List[manage.NodeEntry]{Entries: []manage.NodeEntry{{IP4: netip.MustParseAddr("10.9.0.7"), LID: 5, Resolved: true}}, Total: 1}, nil
}

// ListGroups implements command.Bridge.
func (b *Bridge) ListGroups(context.Context, manage.Query) (manage.List[manage.GroupEntry], error) {
	g := manage.GroupEntry{Group: manage.Group{IP: netip.MustParseAddr("239.1.2.3"), ToIB: true, ToRoCE: true}, State: "joined"}
	return manage.List[manage.GroupEntry]{Entries: []manage.GroupEntry{g}, Total: 1}, nil
}

// ListRequests implements command.Bridge.
func (b *Bridge) ListRequests(context.Context, manage.Query) (manage.List[manage.RequestEntry], error) {
	return manage.List[manage.RequestEntry]{Entries: []manage.RequestEntry{{From: HostIP(1), To: HostIP(2), Port: 7174, Waits: "an answer"}}, Total: 1}, nil
}

// ForgetHost implements command.Bridge.
func (b *Bridge) ForgetHost(_ context.Context, ip netip.Addr) (bool, error) {
	b.note("forget %v", ip)
	return true, nil
}

// Latency is that of one packet, each way.
func (b *Bridge) Latency() [][2]lcore.Latency {
	all := make([][2]lcore.Latency, 1)
	for d := range all[0] {
		all[0][d].Record(3*time.Microsecond, 1)
	}
	return all
}

// ClearLatency is noted.
func (b *Bridge) ClearLatency() { b.note("clear latency") }

// Inject is noted, and kept.
func (b *Bridge) Inject(d lcore.Direction, i lcore.Injection) error {
	if err := i.Validate(); err != nil {
		return err
	}
	b.note("inject %v drop %v", d, i.Drop)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.injected[d] = i
	return nil
}

// Injections returns what was injected.
func (b *Bridge) Injections() [2]lcore.Injection {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.injected
}

// Sample is Watch.
func (b *Bridge) Sample(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (uint64, error) {
	return b.Watch(ctx, f, snap, see)
}

// Watch shows packets of the first hosts, a thousand a second, until ctx ends.
func (b *Bridge) Watch(ctx context.Context, _ lcore.Filter, _ int, see func(lcore.Sight) bool) (uint64, error) {
	for i := 0; ctx.Err() == nil; i++ {
		gid := ib.GIDFromAddr(HostIP(i % 3))
		if !see(lcore.Sight{Time: time.Now(), Packet: uint64(i), Direction: lcore.IBToRoCE, Point: lcore.Received, Door: lcore.IBDoor, IB: &lcore.SightIB{SGID: gid}}) {
			return 0, nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, nil
}

func (b *Bridge) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Said = append(b.Said, fmt.Sprintf(format, args...))
}

// Notes returns what was changed.
func (b *Bridge) Notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Said)
}

// follow takes a configuration over.
func (b *Bridge) follow(to *config.Config, err error) (config.Changes, error) {
	if err != nil {
		return nil, err
	}
	changes := config.Diff(b.Cfg, to)
	b.Cfg = to
	return changes, nil
}

// Add adds entries to the configuration.
func (b *Bridge) Add(_ context.Context, entries string) (config.Changes, error) {
	return b.follow(b.Cfg.Extend(entries))
}

// SetGroups changes the configuration's groups.
func (b *Bridge) SetGroups(_ context.Context, groups []config.Group) (config.Changes, error) {
	return b.follow(b.Cfg.WithGroups(groups))
}

// RemoveGroup takes a group out of the configuration.
func (b *Bridge) RemoveGroup(_ context.Context, mgid ib.GID) (config.Changes, error) {
	return b.follow(b.Cfg.WithGroups(slices.DeleteFunc(slices.Clone(b.Cfg.Groups), func(g config.Group) bool { return g.MGID == mgid })))
}

// RemoveHost takes a host out of the configuration.
func (b *Bridge) RemoveHost(_ context.Context, ip netip.Addr) (config.Changes, error) {
	return b.follow(b.Cfg.WithHosts(slices.DeleteFunc(slices.Clone(b.Cfg.Hosts), func(h config.Host) bool { return cmp.Or(h.IP, h.IP6) == ip })))
}

// RemoveService takes a service out of the configuration.
func (b *Bridge) RemoveService(_ context.Context, s config.Service) (config.Changes, error) {
	return b.follow(b.Cfg.WithServices(slices.DeleteFunc(slices.Clone(b.Cfg.Services), func(o config.Service) bool { return o == s })))
}

// Drain leaves everything to another bridge.
func (b *Bridge) Drain(context.Context) error { b.Drained = true; return nil }

// Resume takes it up again.
func (b *Bridge) Resume(context.Context) error { b.Drained = false; return nil }

// Plan says what another configuration changes.
func (b *Bridge) Plan(to *config.Config) (config.Changes, error) { return config.Diff(b.Cfg, to), nil }

// Reload follows another configuration.
func (b *Bridge) Reload(_ context.Context, to *config.Config) (config.Changes, error) {
	return b.follow(to, nil)
}
