// SPDX-License-Identifier: Apache-2.0

package learner_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/learner"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

func gid(n uint64) ib.GID { return ib.GIDFromGUID(0xfe80<<48, ib.GUID(n)) }

func addr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, n}) }

var six = netip.MustParseAddr("fd09::7")

// subnet is the subnet administrator: whose each LID is, which is also where its paths lead.
type subnet struct {
	mu    sync.Mutex
	ports map[ib.LID]ib.GID
	asked int
}

func (s *subnet) Holder(_ context.Context, lid ib.LID) (ib.GID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if g, ok := s.ports[lid]; ok {
		return g, nil
	}
	return ib.GID{}, ibside.ErrNoPath
}

func (s *subnet) Path(_ context.Context, g ib.GID, _ ib.PKey) (ibside.Path, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for lid, has := range s.ports {
		if has == g {
			return ibside.Path{LID: lid}, nil
		}
	}
	return ibside.Path{}, ibside.ErrNoPath
}

func (s *subnet) Own() ibside.Own { return ibside.Own{GIDs: []ib.GID{gid(0xa)}} }

// kernel is IPoIB: who really has each address, and what the kernel believes.
type kernel struct {
	mu      sync.Mutex
	have    map[netip.Addr]ib.GID
	believe map[netip.Addr]ib.GID
	asked   []netip.Addr
	waits   bool // it asks on IPoIB, and nobody answers yet
	changes chan ibside.AddressChange
}

func (k *kernel) GID(ip netip.Addr) (ib.GID, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g, ok := k.believe[ip]
	return g, ok
}

func (k *kernel) Addrs(g ib.GID) (all []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ip, has := range k.believe {
		if has == g {
			all = append(all, ip)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func (k *kernel) Subnets() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd09::/64")}
}

func (k *kernel) Changes() <-chan ibside.AddressChange { return k.changes }

func (k *kernel) Ask(ip netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, ip)
	if k.believe[ip].IsZero() && !k.waits {
		k.answer(ip, k.have[ip])
	}
	return nil
}

// Confirm asks the one that is believed to have it, as the kernel does by NUD_PROBE.
func (k *kernel) Confirm(ip netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, ip)
	now := k.have[ip]
	if old := k.believe[ip]; !old.IsZero() && old != now {
		now = ib.GID{}
	}
	k.answer(ip, now)
	return nil
}

func (k *kernel) answer(ip netip.Addr, by ib.GID) {
	delete(k.believe, ip)
	if !by.IsZero() {
		k.believe[ip] = by
	}
	k.changes <- ibside.AddressChange{IP: ip, GID: by, Answered: !by.IsZero(), Failed: by.IsZero()}
}

// heard has the kernel learn an address from a node's own request.
func (k *kernel) heard(ip netip.Addr, by ib.GID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.have[ip], k.believe[ip] = by, by
	k.changes <- ibside.AddressChange{IP: ip, GID: by}
}

func (k *kernel) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

type hosts map[netip.Addr]bool

func (h hosts) Has(ip netip.Addr) bool { return h[ip] }

type used map[ib.GID]bool

func (u used) TakeUsed(g ib.GID) bool { return u[g] }

// A rig is a Learner with real nodes and tables, on a fake clock. turn runs the loop for a time.
type rig struct {
	*learner.Learner
	t      *testing.T
	subnet *subnet
	kernel *kernel
	hosts  hosts
	used   used
	nodes  *nodes.Nodes
	tables *tables.Tables
	turn   func(time.Duration)
}

func run(t *testing.T, configured []nodes.Node, most int, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ts, err := tables.New(tables.Config{MaxHosts: 16, MaxProxyQPs: 4, MaxNodes: 64, MaxGroups: 4, MaxReaders: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer ts.Close()
		in := inbox.New(256, errors.New("ended"))
		a := ask.New(in)
		ctx, stop := context.WithCancel(context.Background())
		a.Start(ctx)
		log := ratelog.New(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
		r := &rig{t: t, subnet: &subnet{ports: map[ib.LID]ib.GID{}}, hosts: hosts{}, used: used{}, tables: ts,
			kernel: &kernel{have: map[netip.Addr]ib.GID{}, believe: map[netip.Addr]ib.GID{}, changes: make(chan ibside.AddressChange, 256)}}
		for n := range uint64(64) {
			r.subnet.ports[ib.LID(n+1)] = gid(n + 1)
		}
		r.nodes = nodes.New(configured, nodes.Deps{Tables: ts.Nodes, Paths: r.subnet, MTU: 4096, Ask: a, Log: log, Changed: func() {},
			Reclaim: ts.Reclaim, Readdress: func(added, removed []netip.Addr) {}})
		if err := r.nodes.Start(); err != nil {
			t.Fatal(err)
		}
		r.Learner = learner.New(learner.Config{Max: most, Idle: 10 * time.Minute, Every: 100 * time.Millisecond,
			Allow: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd09::/64")}}, learner.Deps{
			Port: r.subnet, Resolver: r.kernel, Nodes: r.nodes, Tables: r.used, Hosts: r.hosts, Ask: a, Log: log,
			Local: &local.Addresses{Link: frame.Link{MAC: frame.MAC{2}}, IPs: []netip.Prefix{
				netip.MustParsePrefix("10.9.0.254/24"), netip.MustParsePrefix("fd09::fe/64")}},
			Partition: func() uint8 { return 0 },
		})
		r.Follow()
		r.turn = func(d time.Duration) {
			for range max(1, d/(100*time.Millisecond)) {
				time.Sleep(100 * time.Millisecond)
				for range 4 {
					synctest.Wait()
					in.DoPending()
				}
				r.Tick(time.Now())
			}
		}
		test(r)
		stop()
		a.Wait()
	})
}

// expect checks which GIDs have which addresses; a node with a path is in the tables.
func (r *rig) expect(when string, want map[netip.Addr]ib.GID) {
	r.t.Helper()
	for _, n := range []byte{5, 7, 8, 9} {
		if got := r.nodes.GID(addr(n)); got != want[addr(n)] {
			r.t.Errorf("%s: %v is %v's, want %v", when, addr(n), got, want[addr(n)])
		}
		if x, _, found := r.tables.Nodes.Find(addr(n)); found != !want[addr(n)].IsZero() || x.GID != want[addr(n)] {
			r.t.Errorf("%s: in the tables %v is %v's, want %v", when, addr(n), x.GID, want[addr(n)])
		}
	}
	if r.Learned() != len(slices.Collect(r.nodes.All()))-r.configured() {
		r.t.Errorf("%s: %d are learned", when, r.Learned())
	}
}

func (r *rig) configured() (n int) {
	for x := range r.nodes.All() {
		if !x.Learned {
			n++
		}
	}
	return n
}
