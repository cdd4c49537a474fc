// SPDX-License-Identifier: Apache-2.0

// Package manage is the management loop: one goroutine that owns all writes to the tables.
//
//	workers ── odd frames ──▶ ARP, ND, ICMP ─▶ neighbours ─▶ answers ─▶ workers' send rings
//	        │                 IGMP, MLD     ─▶ membership ─▶ reports ─▶
//	        └─ held frames ─▶ stand-ins: QP from the IB door, tables, then the frame goes back to its worker
//	subnet administrator ◀─▶ groups, paths of nodes (in goroutines of their own; results come to the loop)
//
// Nothing on the bench waits for it. What it cannot do yet it tries again with back-off.
package manage

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A Worker is what management sees of a worker lcore.
type Worker interface {
	// TakeOdd takes what the worker put aside, at most a burst.
	TakeOdd() []Odd
	// Send has the worker send a frame as it is.
	Send(frame []byte) error
}

// An Odd frame is one that a worker put aside.
type Odd struct {
	Data []byte
	Held Held // nil: the frame is management's own business
}

// Held is RoCE data that waits for a stand-in. It ends by exactly one call.
type Held interface {
	Worker() int // who received it
	Again()      // the stand-in is there
	Refuse(Refusal)
}

// A Refusal says why held data got no stand-in.
type Refusal int

// The refusals.
const (
	RefuseFull    Refusal = iota // a limit is reached, or the IB door gives no QP
	RefuseSource                 // the source contradicts what is configured for its address
	RefuseStopped                // the bridge is stopping
	RefuseDenied                 // policy does not allow the source any more
)

// Membership is what the subnet administrator grants to a group's member.
type Membership struct {
	MLID     ib.LID
	SL       ib.SL
	QKey     ib.QKey
	TClass   uint8
	HopLimit uint8
	MTU      ib.MTU
}

// IBDoor is what management asks of the InfiniBand door. Join, Leave and Path may take as long as their
// context allows; they are called from goroutines of their own.
type IBDoor interface {
	CreateStandIn(worker int, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyStandIn(qp uint32) error
	Join(ctx context.Context, g Join) (Membership, error)
	Leave(ctx context.Context, mgid ib.GID) error
	Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error)
	// Own tells what the port goes by; it is asked often.
	Own() Own
}

// Join says how to become a member of a group.
type Join struct {
	MGID    ib.GID
	QKey    ib.QKey
	PKey    ib.PKey
	Worker  int  // who receives the group's messages
	Receive bool // a full member; else one that only sends
	Guest   bool // the group ends when its other members have gone, if the door can tell the subnet so
}

// A Node is an IB node by configuration.
type Node struct {
	IP4, IP6 netip.Addr // at least one is valid
	GID      ib.GID
	LID      ib.LID // 0: the subnet administrator is asked
	SL       ib.SL
	GRH      bool // what is sent to it carries a GRH
	Bridge   bool // another bridge of ours
}

// A Group is a bridged group by configuration.
type Group struct {
	IP           netip.Addr
	MGID         ib.GID
	QKey         ib.QKey
	PKey         ib.PKey
	ToIB, ToRoCE bool
	RewriteImm   bool
	Rate         uint64 // packets a second, each way; 0: no limit
	PGM          bool   // its messages are PGM's, and looked at
}

// Config is what management needs to know. What a Change names changes, in the loop; the rest does not.
type Config struct {
	MAC       frame.MAC
	VLAN      uint16
	Addresses []netip.Prefix // the bridge's own
	Version   uint8          // RoCE version of multicast towards RoCE hosts: 1 or 2
	IBMTU     int            // largest payload towards IB, bytes
	RoCEMTU   int            // largest payload towards RoCE, bytes

	MaxHosts        int // RoCE hosts, at most; the tables have room for some more: see putHost
	MaxNodes        int // IB nodes, at most; 0: as many as the tables take
	StandIns        int // at most
	StandInsPerHost int
	StandInIdle     time.Duration  // a stand-in that nothing crosses by for so long ends; 0: never
	HostGIDs        []netip.Prefix // the IB port's GIDs in there are for RoCE hosts, one each
	AliasGIDs       bool           // RoCE hosts' GIDs are made the port's, where the door is an Aliaser

	Hosts   []tables.Host // static RoCE hosts
	Resolve []netip.Addr  // RoCE hosts that are asked for their MAC address
	Nodes   []Node
	Groups  []Group

	Service ServiceConfig

	MaxGroups int     // configured and learnt, at most; less than the tables have room for, because ids rest before they are used again
	Ranges    []Range // groups that are learnt; they do not overlap
	Querier   bool    // the bridge asks the RoCE side who listens, where nobody else does

	// Hear has the Ethernet port receive these groups, sorted, beside what management itself needs. Called in the loop when
	// they are others; nil: the port receives all.
	Hear func(groups []netip.Addr) error
	// Begin says that nothing crosses under this id, and that what will is of another group than before. May be nil.
	Begin func(id int)
	// Police limits the rate of the group with this id; called for groups that have one, or had.
	Police func(id int, rate uint64)
}

// A Loop is the management loop.
type Loop struct {
	cfg     Config
	log     *slog.Logger
	tables  *tables.Tables
	door    IBDoor
	workers []Worker
	link    frame.Link

	do       chan func() // work for the loop's goroutine, from the others
	asking   sync.WaitGroup
	together chan struct{} // holds a token for each question that the subnet administrator is busy with

	nodes     map[netip.Addr]bool
	standIns  map[standInKey]standIn
	perHost   map[netip.Addr]int
	ids       identities
	round     rounds
	questions []question

	neighbours    neighbours
	announcements []announcement
	announceFrom  time.Time // ready or not
	defended      map[netip.Addr]time.Time
	announcedAt   time.Time // when some were sent last
	wasReady      bool
	drained       bool // another bridge is to take over

	groupBooks
	subnetBooks

	running context.Context // Run's
	ended   chan struct{}   // closed by Run
	lateMu  sync.Mutex
	late    []func() // what came for the loop when it had ended

	started bool
	waiting int       // paths that are not there yet
	kept    time.Time // when house was kept last
	logged  map[string]lines

	sidr *sidr

	status    atomic.Pointer[Status]
	published uint64
	count     Counters
}

// togetherMost bounds how many questions the subnet administrator gets at a time.
const togetherMost = 16

// New makes a loop. Workers stand in the order of their numbers.
func New(cfg Config, t *tables.Tables, door IBDoor, workers []Worker, log *slog.Logger) *Loop {
	l := &Loop{
		cfg: cfg, log: log, tables: t, door: door, workers: workers,
		link:       frame.Link{MAC: cfg.MAC, VID: cfg.VLAN},
		do:         make(chan func(), 256),
		together:   make(chan struct{}, togetherMost),
		nodes:      map[netip.Addr]bool{},
		standIns:   map[standInKey]standIn{},
		perHost:    map[netip.Addr]int{},
		defended:   map[netip.Addr]time.Time{},
		neighbours: neighbours{of: map[netip.Addr]*neighbour{}},
		ids:        identities{of: map[netip.Addr]Source{}, holder: map[ib.GID]netip.Addr{}},
		logged:     map[string]lines{},
		sidr:       newSIDR(cfg.Nodes),
		ended:      make(chan struct{}),
		groupBooks: newGroupBooks(&cfg), subnetBooks: newSubnetBooks(),
	}
	l.publish()
	return l
}

// Run manages until ctx ends; then it leaves the groups. When it returns, nothing of it is left in the IB
// door. Workers must run for longer than it does.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.ended)
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
	l.doPending() // what they had still to tell
	l.doLate()
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
		l.doPending()
		l.keepHouse(time.Now())
		if busy {
			continue
		}
		select {
		case f := <-l.do:
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
	l.sendReports(now)
	l.sendQueries(now)
	l.ageGroups(now)
	l.retryFailed(now)
	l.hearAgain = l.hearAgain || l.hearFailed
	l.askAgain(now)
	l.ageHosts(now)
	l.sendAnnouncements(now)
	l.followOwn()
	l.followSubnet(now)
	l.tendServices(now)
	l.ageStandIns(now)
	l.tables.Reclaim()
	l.publish()
}

// doPending does what has been handed to the loop until now.
func (l *Loop) doPending() {
	for range len(l.do) {
		(<-l.do)()
	}
}

// later has the loop's goroutine run f. It reports false when ctx has ended instead.
func (l *Loop) later(ctx context.Context, f func()) bool {
	select {
	case l.do <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// tell has the loop's goroutine run f, at the latest when the loop has ended.
func (l *Loop) tell(f func()) {
	if !l.later(l.running, f) {
		l.lateMu.Lock()
		defer l.lateMu.Unlock()
		l.late = append(l.late, f)
	}
}

// doLate does what came too late for the loop. Nobody is left who could tell more.
func (l *Loop) doLate() {
	for _, f := range l.late {
		f()
	}
	l.late = nil
}

// ask puts a question to the subnet administrator in a goroutine of its own, again with back-off until it
// succeeds or ctx ends. Who waits for the next try does not keep others from theirs.
func (l *Loop) ask(ctx context.Context, question func(context.Context) error) {
	l.asking.Go(func() { l.persist(ctx, l.together, question) })
}

// persist asks again and again, each time with one of the slots.
func (l *Loop) persist(ctx context.Context, slots chan struct{}, question func(context.Context) error) {
	retry(ctx, func() error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slots }()
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return question(asking)
	})
}

// lines are those of one event in the log.
type lines struct {
	since time.Time // begin of the second that n counts
	n     int
}

// mayLog keeps what anybody on the wire can cause as often as he likes from filling the log: it reports
// whether there are fewer than most such lines in this second.
func (l *Loop) mayLog(event string, most int) bool {
	now, of := time.Now(), l.logged[event]
	if now.Sub(of.since) >= time.Second {
		of = lines{since: now}
	}
	of.n++
	l.logged[event] = of
	return of.n <= most
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
