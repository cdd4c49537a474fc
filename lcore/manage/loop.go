// SPDX-License-Identifier: Apache-2.0

// Package manage is the management loop: one goroutine that owns all writes to the tables.
//
//	workers ── odd frames ──▶ ARP, ND, ICMP ─▶ neighbours ─▶ answers ─▶ workers' send rings
//	        │                 IGMP, MLD     ─▶ membership ─▶ reports ─▶
//	        └─ held frames ─▶ stand-ins: QP from the IB door, tables, then the frame goes back to its worker
//	subnet administrator ◀─▶ groups, paths of nodes (in goroutines of their own; results come to the loop)
//
// Nothing on the bench waits for it. What it cannot do yet it tries again with back-off. What is decided without tables and doors
// is in the packages below this one; here it is done.
package manage

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/identity"
	"causeway/lcore/manage/igmp"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/neighbour"
	"causeway/tables"
)

// A Loop is the management loop.
type Loop struct {
	cfg     Config
	log     *slog.Logger
	tables  *tables.Tables
	door    IBDoor
	workers []Worker
	link    frame.Link

	work     *inbox.Inbox    // from other goroutines
	running  context.Context // Run's
	asking   sync.WaitGroup
	together chan struct{} // holds a token for each question that the subnet administrator is busy with

	nodes    map[netip.Addr]bool
	standIns map[standInKey]standIn
	perHost  map[netip.Addr]int
	port     portBooks
	round    rounds

	neighbours    *neighbour.Book
	search        neighbour.Search
	announcements neighbour.Announcements
	wasReady      bool
	drained       bool // another bridge is to take over

	groupBooks
	subnetBooks
	listener *igmp.Host
	querier  *igmp.Querier

	started bool
	waiting int       // paths that are not there yet
	kept    time.Time // when house was kept last
	logged  map[string]lines

	sidr *sidr

	status    atomic.Pointer[Status]
	published uint64
	count     Counters
}

// ErrEnded is what changes and questions meet when the loop has ended.
var ErrEnded = errors.New("manage: the bridge has ended")

// togetherMost bounds how many questions the subnet administrator gets at a time.
const togetherMost = 16

// New makes a loop. Workers stand in the order of their numbers.
func New(cfg Config, t *tables.Tables, door IBDoor, workers []Worker, log *slog.Logger) *Loop {
	l := &Loop{
		cfg: cfg, log: log, tables: t, door: door, workers: workers,
		link:       frame.Link{MAC: cfg.MAC, VID: cfg.VLAN},
		work:       inbox.New(256, ErrEnded),
		together:   make(chan struct{}, togetherMost),
		nodes:      map[netip.Addr]bool{},
		standIns:   map[standInKey]standIn{},
		perHost:    map[netip.Addr]int{},
		neighbours: neighbour.New(),
		logged:     map[string]lines{},
		sidr:       newSIDR(cfg.Nodes),
		groupBooks: newGroupBooks(&cfg), subnetBooks: newSubnetBooks(),
	}
	l.port.sources, l.port.aliases = identity.New(identity.Rules{Own: l.ownGID, Fits: l.fits, Given: l.given}), identity.NewAliases()
	l.listener, l.querier = igmp.NewHost(l.igmpPort()), igmp.NewQuerier(l.igmpPort())
	l.querier.Asks = cfg.Querier
	l.publish()
	return l
}

// Run manages until ctx ends; then it leaves the groups. When it returns, nothing of it is left in the IB
// door. Workers must run for longer than it does.
func (l *Loop) Run(ctx context.Context) error {
	defer l.work.End()
	l.running = ctx
	l.followOwn()
	if err := l.putStatic(); err != nil {
		return err
	}
	l.resolveNodes(ctx)
	l.startGroups()
	l.takeNotices(ctx)
	l.startServices(ctx)
	l.askForHosts()
	l.planAnnouncements(time.Now())
	l.started = true
	l.publish()
	l.turn(ctx)
	l.asking.Wait()
	l.endServices()
	l.work.DoPending() // what they had still to tell
	l.work.DoLate()
	err := l.leaveGroups()
	l.publish()
	return err
}

const (
	// idleTick bounds how long an odd frame waits when the loop is idle: the price is a wake-up of the CPU.
	idleTick = time.Millisecond
	// houseEvery is how often the loop looks after what has no event of its own.
	houseEvery = 100 * time.Millisecond
)

// turn is the loop proper. A flood of odd frames holds up neither the results of others nor the housekeeping:
// each gets its turn after a burst of each worker.
func (l *Loop) turn(ctx context.Context) {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	for ctx.Err() == nil {
		l.hear()
		if l.changed {
			l.publish()
		}
		busy := l.takeOdd() > 0
		l.findAwaited()
		l.work.DoPending()
		l.keepHouse(time.Now())
		if busy {
			continue
		}
		select {
		case f := <-l.work.C():
			f()
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// keepHouse does, now and then, what is due.
func (l *Loop) keepHouse(now time.Time) {
	if now.Sub(l.kept) < houseEvery {
		return
	}
	l.kept = now
	l.listener.Tend(now)
	l.querier.Tend(now)
	l.ageGroups(now)
	l.retryFailed(now)
	l.hearAgain = l.hearAgain || l.hearFailed
	l.searchHosts(now)
	l.ageHosts(now)
	l.sendAnnouncements(now)
	l.followOwn()
	l.followSubnet(now)
	l.tendServices(now)
	l.ageStandIns(now)
	l.tables.Reclaim()
	l.publish()
}

func (l *Loop) takeOdd() int {
	n := 0
	for _, w := range l.workers {
		odd := w.TakeOdd()
		n += len(odd)
		for _, o := range odd {
			l.handle(w, o)
		}
	}
	return n
}

// Drain ends what still waits, after Run has returned and the workers have stopped.
func (l *Loop) Drain() {
	for _, w := range l.workers {
		for odd := w.TakeOdd(); len(odd) > 0; odd = w.TakeOdd() {
			for _, o := range odd {
				if o.Held != nil {
					o.Held.Refuse(RefuseStopped)
				}
			}
		}
	}
}
