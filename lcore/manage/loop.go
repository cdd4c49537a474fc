// SPDX-License-Identifier: Apache-2.0

// Package manage is the management loop: one goroutine that owns all writes to the tables.
//
//	workers ── punted frames ──▶ ARP, ND   ─▶ neighbours ─▶ answers ─▶ workers' send rings
//	        │                    IGMP, MLD ─▶ groups ─────▶ reports ─▶
//	        │                    MADs      ─▶ sidr ───────▶ answers ─▶
//	        │                              ─▶ messages ─▶ Config.Heard
//	        └─ pending packets ─▶ proxyqps: a QP of the IB port, tables, then the packet goes back to its worker
//	subnet administrator ◀─▶ groups, nodes, gids (in goroutines of their own: ask; results come back to the loop: inbox)
//
// The packages below this one are the parts of management, and own its state. The loop gives each its turn, and
// composes what an operator sees. The datapath never waits for it. What fails it repeats with back-off.
package manage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/partitions"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// A Loop is the management loop.
type Loop struct {
	parts
	cfg     *Config // as at the start
	port    ibside.Port
	tables  *tables.Tables
	workers []Worker
	frames  *punt.Workers
	backlog *punt.Backlog
	inbox   *inbox.Inbox // from other goroutines
	ask     *ask.Asker
	log     *ratelog.Logger

	partitions *partitions.Partitions
	missing    []ib.PKey // of them, those that the port's table does not have

	started      bool
	wasReady     bool
	told         bool // of each punted frame
	drained      bool // another bridge takes over
	ticked       time.Time
	echoAnswered uint64
	refusals     refusals
	published    uint64
	status       atomic.Pointer[Status]
}

// ErrEnded is what changes and lists return when the loop has ended.
var ErrEnded = errors.New("manage: the bridge has ended")

// Run manages until ctx ends; then it leaves the groups. When it returns, it has nothing left in the IB port. Workers
// must run for longer than it does.
func (l *Loop) Run(ctx context.Context) error {
	defer l.inbox.End()
	l.ask.Start(ctx)
	if err := l.start(); err != nil {
		return err
	}
	l.turn(ctx)
	l.ask.Wait()
	l.inbox.DoPending() // the last results, SIDR's among them
	for s := range l.everySegment() {
		s.sidr.End()
	}
	l.inbox.DoPending()
	l.inbox.DoLate()
	for s := range l.everySegment() {
		s.groups.Leave(time.Now())
	}
	l.shared.Leave(time.Now())
	l.publish()
	return nil
}

func (l *Loop) start() error {
	l.lookForPKeys()
	for _, s := range l.segments {
		s.gids.Follow()
		if err := s.neighbours.Start(); err != nil {
			return err
		}
	}
	if err := l.nodes.Start(); err != nil {
		return err
	}
	l.learner.Follow()
	shared, err := l.narrowShared(l.cfg.Shared, time.Now())
	if err != nil { // cannot be: there are none
		return err
	}
	for _, s := range l.segments {
		s.groups.Start(s.cfg.Groups)
	}
	if err := l.setShared(shared); err != nil {
		return err
	}
	if n, ok := l.port.(ibside.Notifier); ok && n.Notices() != nil {
		l.followNotices(n.Notices())
	}
	for _, s := range l.segments {
		s.sidr.Start()
		s.neighbours.SetDrained(l.drained, time.Now())
	}
	l.started = true
	l.publish()
	return nil
}

const (
	// idleTick bounds how long a punted frame waits when the loop is idle, and nothing tells of it: the price is a wake-up
	// of the CPU.
	idleTick = time.Millisecond
	// tickEvery is how often the parts do what is due.
	tickEvery = 100 * time.Millisecond
)

// turn takes turns until ctx ends. A flood of punted frames delays neither results nor timers: each has its turn after
// a burst of each worker.
func (l *Loop) turn(ctx context.Context) {
	every := idleTick
	idle := time.NewTicker(every)
	defer idle.Stop()
	var renewed <-chan struct{}
	if port, ok := l.port.(ibside.Renewer); ok {
		renewed = port.Changed()
		l.inbox.Before = func() { l.renew(time.Now()) }
		defer func() { l.inbox.Before = nil }()
	}
	for ctx.Err() == nil {
		busy := l.takePunted() > 0 || l.awaitPunted() > 0
		l.renew(time.Now())
		l.followLink(time.Now())
		l.inbox.DoPending()
		l.tick(time.Now())
		if l.follow(time.Now()) { // last: then the loop may sleep
			l.publish()
		}
		if busy {
			continue
		}
		if next := sleepOf(l.told); next != every {
			every = next
			idle.Reset(every)
		}
		select {
		case f := <-l.inbox.C():
			l.inbox.Run(f)
		case <-l.cfg.Punted:
		case <-renewed:
		case <-l.cfg.LinkUp:
			l.linkUp(time.Now())
		case <-idle.C:
		case <-ctx.Done():
		}
	}
}

// follow does what follows from hosts and groups that are there or gone, and reports whether groups have changed.
func (p *parts) follow(now time.Time) (changed bool) {
	for _, s := range p.segments {
		s.sidr.FindHosts(now)
		s.groups.UpdateFilter()
		changed = s.groups.Changed() || changed
	}
	return p.shared.Changed() || changed
}

// followNotices gives the subnet's notices to all segments.
func (l *Loop) followNotices(notices <-chan ibside.Notice) {
	running := l.ask.Running()
	noticed := func(n ibside.Notice) {
		for _, s := range l.segments {
			s.groups.Noticed(n)
		}
		l.shared.Noticed(n)
	}
	l.ask.Go(func() {
		for {
			select {
			case n, open := <-notices:
				if !open || !l.ask.Later(running, func() { noticed(n) }) {
					return
				}
			case <-running.Done():
				return
			}
		}
	})
}

// tick does what is due.
func (l *Loop) tick(now time.Time) {
	if now.Sub(l.ticked) < tickEvery {
		return
	}
	l.ticked = now
	l.lookForPKeys()
	heard := l.backlog.Until() // of what came later, nothing is known
	for _, s := range l.segments {
		s.groups.Tick(now, heard)
	}
	l.shared.Tick(now, heard)
	l.nodes.Tick(now)
	l.learner.Tick(now)
	l.bridges.Tick(now)
	for _, s := range l.segments {
		s.neighbours.Tick(now, heard)
		s.gids.Follow()
		s.gids.Tick(now)
		s.sidr.Tick(now)
		s.proxyQPs.Tick(now)
	}
	l.tickEnded(now, heard)
	l.tables.Reclaim()
	l.publish()
}

// renew takes what the subnet has changed, in each turn: messages must not be taken for those of a LID's former owner. It comes
// before each result, too: an answer follows the notice that it tells more of.
func (l *Loop) renew(now time.Time) {
	port, ok := l.port.(ibside.Renewer)
	if !ok {
		return
	}
	r := port.Renewed()
	if r.Back {
		l.ask.Wake()
	}
	for _, s := range l.segments {
		s.groups.Renew(r.Groups)
	}
	l.shared.Renew(r.Groups)
	l.nodes.Renew(now, r)
	if len(r.Ports) > 0 || r.Back {
		l.bridges.PortsCame(now)
	}
}

func (l *Loop) followLink(now time.Time) {
	select {
	case <-l.cfg.LinkUp:
		l.linkUp(now)
	default:
	}
}

// linkUp tells the RoCE side what it may have forgotten, or was not told, while frames could not pass the port.
func (l *Loop) linkUp(now time.Time) {
	for _, s := range l.segments {
		s.groups.ReportAgain(now)
		s.neighbours.AnnounceAgain(now)
	}
}

// lookForPKeys finds P_Keys that the port has lost, or has again: then what failed is tried again.
func (l *Loop) lookForPKeys() {
	before := len(l.missing)
	l.missing = l.partitions.Missing(l.port.Own().PKeys)
	if len(l.missing) < before {
		l.ask.Wake()
	}
}

func (l *Loop) takePunted() int {
	n, began := 0, time.Now()
	for i, w := range l.workers {
		punted := w.TakePunted()
		l.backlog.Took(i, len(punted))
		n += len(punted)
		for _, p := range punted {
			l.handle(i, p)
		}
	}
	l.backlog.Turn(began)
	return n
}

// awaitPunted has the next punted frame wake the loop, and takes those that came before.
func (l *Loop) awaitPunted() int {
	if l.cfg.AwaitPunted == nil {
		return 0
	}
	l.told = l.cfg.AwaitPunted()
	return l.takePunted()
}

// sleepOf is how long the loop sleeps when it is idle; told: of each punted frame.
func sleepOf(told bool) time.Duration {
	if told {
		return tickEvery
	}
	return idleTick
}

// Drain rejects all pending packets, after Run has returned and the workers have stopped.
func (l *Loop) Drain() {
	for _, w := range l.workers {
		for punted := w.TakePunted(); len(punted) > 0; punted = w.TakePunted() {
			for _, p := range punted {
				if p.Pending != nil {
					p.Pending.Reject(RejectStopped)
				}
			}
		}
	}
}
