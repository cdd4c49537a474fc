// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"causeway/config"
	"causeway/fleet/etcd"
	"causeway/fleet/lease"
	"causeway/fleet/peers"
	"causeway/fleet/shards"
	"causeway/fleet/whereabouts"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/ipoib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// membership is the bridge's part in its fleet; nil: it is in none.
type membership struct {
	cfg    config.Fleet
	name   string // of the member
	log    *slog.Logger
	gate   *shardGate
	member *lease.Member
	unable func() string // why the bridge cannot do its part; "": it can
	agrees agreement
	barred func() string // why the bridge carries nothing because of another that is not of the fleet; "": it may
	pushes pushes
	*neighbours
	nodes *ipoib.Responder // answers InfiniBand nodes

	changing sync.Mutex // what operators change
	left     string     // why the bridge is to leave its shards to others: drained, or ending; "": it is not
	weight   float64
}

// why says why the bridge does no part; "": it does.
func (m *membership) why() string {
	return cmp.Or(m.leaves(), m.unable(), m.barred(), m.agrees.why())
}

// wants is the weight that the bridge is to have, and why that is 0.
func (m *membership) wants() (weight float64, why string) {
	if why = m.why(); why != "" {
		return 0, why
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	return m.weight, ""
}

// virtualMAC returns the MAC address of a fleet's host shard 0: one that is administered locally, made of the fleet's name.
func virtualMAC(fleet string) (m frame.MAC) {
	if fleet == "" {
		return m
	}
	sum := sha256.Sum256([]byte(fleet))
	copy(m[:5], sum[:])
	m[0] = m[0]&^3 | 2
	return m
}

// joinFleet makes a bridge a member, which Run has take part.
func joinFleet(b *Bridge, shared Shared) error {
	f := b.cfg.Fleet
	if f.Name == "" {
		return nil
	}
	store, end, err := FleetStore(&f)
	if err != nil {
		return fmt.Errorf("bridge: [fleet]: %w", err)
	}
	b.teardown.add(end)
	where, err := whereabouts.Of(os.Getpid())
	if err != nil {
		return fmt.Errorf("bridge: [fleet]: %w", err)
	}
	m := &membership{cfg: f, name: b.cfg.Name, log: b.log, gate: b.shards, weight: f.Weight}
	m.unable = func() string { return cmp.Or(whyUnable(b), m.lost()) }
	if port, ok := b.ibPort.(ibside.Entitled); ok {
		port.SendWhile(m.gate.entitled)
	}
	m.gate.unable, m.gate.port = m.unable, b.ibPort
	m.nodes = answerNodes(b)
	m.gate.takeOver = func(macs []frame.MAC) {
		manage.TakeOver(context.Background(), b.loop, macs)
		m.nodes.Moved()
	}
	m.gate.reminder = func(macs []frame.MAC) { manage.Remind(b.loop, macs) }
	process := rand.Uint64()
	m.member, err = lease.New(lease.Config{Name: m.name, Process: process, Where: where, Store: store, Gate: m.gate, Lease: f.Lease,
		Clock: &comparedClock{clocks: lcore.NewClocks(lease.DefaultDrift), log: b.log},
		Say:   m.sayer(), Gone: gone, Suspect: func(name string) bool { return m.suspects(name) }})
	if err != nil {
		return fmt.Errorf("bridge: [fleet]: %w", err)
	}
	if err := joinNeighbours(b, m, process, store); err != nil {
		return err
	}
	m.agrees = agreement{store: store, inForce: b.Config, name: m.name, silent: m.silent, founded: &m.gate.founded}
	m.barred = b.Barred
	m.pushes = pushes{store: store, name: m.name, file: shared.File, current: shared.Configuration, inForce: b.configuration,
		unready: func(ctx context.Context) string { return whyUnready(ctx, b) }, agrees: &m.agrees, log: b.log}
	m.pushes.follows.Store(&shared.Configuration)
	b.membership, b.alone, b.reloaded = m, errFleetDrain, m.pushes.reloaded
	return nil
}

// FleetStore returns the store of a fleet, until end.
func FleetStore(f *config.Fleet) (store *etcd.Store, end func() error, err error) {
	secured, err := etcd.LoadTLS(f.CA, f.Cert, f.Key)
	if err != nil {
		return nil, nil, err
	}
	client, err := etcd.Dial(etcd.Config{Endpoints: f.Etcd, TLS: secured})
	if err != nil {
		return nil, nil, err
	}
	return etcd.New(client, f.Name), client.Close, nil
}

// whyUnable says why a bridge cannot carry its shards.
func whyUnable(b *Bridge) string {
	if !b.ports.up() {
		return "an Ethernet port has no link"
	}
	return b.ibPort.Info().Down
}

// run takes part until ctx ends, and says so to the others.
func (m *membership) run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	following.Go(func() { m.follow(ctx) })
	following.Go(func() { m.agrees.run(ctx) })
	following.Go(func() { m.pushes.run(ctx) })
	following.Go(func() { m.neighbours.run(ctx) })
	err := m.member.Run(ctx)
	switch {
	case errors.Is(err, lease.ErrReplaced):
		return fmt.Errorf("bridge: [fleet] %s has another member that is called %s: give each bridge a [bridge] name of its own", m.cfg.Name, m.name)
	case err != nil:
		m.log.Warn("fleet_left", "error", err, "note", "the others carry on for this bridge when its lease has run out")
	}
	return nil
}

// silent returns the members that are not there any more.
func (m *membership) silent(ctx context.Context) (map[string]bool, error) {
	seen, err := m.member.Snapshot(ctx)
	silent := map[string]bool{}
	for _, s := range seen.Members {
		was, known := silent[s.Member]
		silent[s.Member] = s.Silent && (was || !known)
	}
	return silent, err
}

// takePart has the bridge do its part, until leave, which returns when others have its shards, and know that it does none any
// more. fail ends the bridge.
func (m *membership) takePart(ctx context.Context, fail func(error)) (leave func()) {
	if m == nil {
		return func() {}
	}
	ctx, end := context.WithCancel(ctx)
	var taking sync.WaitGroup
	taking.Go(func() {
		defer end()
		if err := m.run(ctx); err != nil {
			fail(err)
		}
	})
	return func() {
		m.yield(ctx)
		end()
		taking.Wait()
	}
}

// follow gives the member weight while the bridge can do its part.
func (m *membership) follow(ctx context.Context) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	was, had := "it has not begun", 0.0
	lapse := lapse{since: time.Now()}
	for promised := false; ; {
		p := m.part()
		lapse.tell(ctx, m, p.Lease > 0)
		m.gate.remind(time.Now())
		promised = m.tellPromised(promised, p.WithoutEtcd)
		if weight, why := m.wants(); why != was || weight != had {
			was, had = why, weight
			if why == "" {
				m.log.Info("fleet_part", "fleet", m.cfg.Name, "weight", weight)
			} else {
				m.log.Warn("fleet_no_part", "fleet", m.cfg.Name, "reason", why)
			}
			m.member.SetWeight(ctx, weight)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tellPromised logs that the bridge goes on without etcd, and that it does no more.
func (m *membership) tellPromised(was, is bool) bool {
	switch {
	case is && !was:
		m.log.Warn("fleet_without_etcd", "etcd", m.cfg.Etcd, "note", "the bridge goes on while all other members promise to take nothing")
	case was && !is:
		m.log.Info("fleet_etcd_back", "note", "the bridge's lease is one of etcd's again")
	}
	return is
}

// lapse is a time without a lease.
type lapse struct {
	since time.Time
	told  bool
}

// tell logs it when it lasts for longer than a lease.
func (l *lapse) tell(ctx context.Context, m *membership, entitled bool) {
	switch {
	case entitled:
		*l = lapse{since: time.Now()}
	case !l.told && time.Since(l.since) > m.cfg.Lease:
		l.told = true
		note := "nothing is forwarded: etcd does not answer, or has no leader"
		if s, err := m.member.Snapshot(ctx); err == nil && s.Unnamed {
			note = "nothing is forwarded: " + unnamed
		}
		m.log.Error("fleet_no_lease", "etcd", m.cfg.Etcd, "note", note)
	}
}

// Part is the bridge's part of its fleet's work, now.
type Part struct {
	Fleet         string            // its name
	Why           string            // it can do none; "": it can
	Drained       bool              // an operator has left its shards to others
	Open          lcore.Shards      // those that it forwards
	Hosts, Groups int               // how many these are
	Lease         time.Duration     // that is left; below 0: since when it has run out
	Lapses        uint64            // how often it had run out
	PutOff        uint64            // how often shards could not pass to others without a loss
	WithoutEtcd   bool              // the lease is one by the other members' promises
	Sessions      []peers.Session   // with the other members
	Unheard       map[string]uint64 // messages of these that were not taken, or not sent, by reason
	Answered      uint64            // ARP requests of InfiniBand nodes for RoCE hosts
	Announced     uint64            // RoCE hosts that came here, to the nodes
}

// Forwards reports whether the bridge forwards a shard.
func (p *Part) Forwards(s shards.Shard) bool {
	one := setOf([]shards.Shard{s})
	return both(p.Open, one) == one
}

// Part returns the bridge's part; false: it is in no fleet.
func (m *membership) Part() (p Part, in bool) {
	if m == nil {
		return p, false
	}
	p = m.part()
	p.Sessions, p.Unheard = m.neighbours.Sessions(), m.neighbours.Dropped()
	p.Answered, p.Announced = m.nodes.Answered(), m.nodes.Announced()
	return p, true
}

func (m *membership) part() (p Part) {
	g := m.gate
	p = Part{Fleet: m.cfg.Name, Why: m.why(), Drained: m.leaves() == drained, Lapses: g.lapses.Load(), PutOff: g.putOff.Load(), WithoutEtcd: m.member.Promised()}
	if open := g.opened.Load(); open != nil {
		p.Open = *open
		p.Hosts, p.Groups = countOf(open)
	}
	if until := g.deadline.Load(); until != nil {
		p.Lease = time.Until(*until)
	}
	return p
}

// FleetStatus is what the bridge knows of its fleet.
type FleetStatus struct {
	Name, Member string // Name is "" where there is no fleet
	Part
	lease.Snapshot
	Configured map[string]etcd.Follower // what members have of pushed configurations; nil: etcd does not tell
	GIDs       map[string]ib.GID        // of members' first ports, as far as they are known
	virtual    frame.MAC
}

// MACOf returns the MAC address of a host shard.
func (s *FleetStatus) MACOf(x shards.Shard) frame.MAC { return macOf(s.virtual, x) }

// Fleet returns what the bridge knows of its fleet, while Run runs.
func (m *membership) Fleet(ctx context.Context) (s FleetStatus, err error) {
	part, in := m.Part()
	if !in {
		return s, nil
	}
	s = FleetStatus{Name: m.cfg.Name, Member: m.name, Part: part, GIDs: m.neighbours.gids(), virtual: m.gate.virtual}
	if s.Snapshot, err = m.member.Snapshot(ctx); err == nil && m.cfg.Pushed {
		s.Configured, _ = m.agrees.store.Followers(ctx) // without etcd the rest is shown
	}
	return s, err
}
