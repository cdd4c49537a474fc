// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"causeway/fleet/shards"
)

// Member holds the leases of one process. Run's goroutine owns all its state: what others do comes to it as messages.
type Member struct {
	config Config
	rules  rules
	inbox  chan func(now time.Time)

	view      *view
	epoch     Epoch // that it follows: it has closed all else, and says so
	seen      Epoch // the newest that it has looked at: it goes on for a moment with what has passed by that (drains)
	kept      set   // of what it had open by epoch, what all since then give it
	open      set
	passing   passing
	started   bool   // its own record came back
	claim     uint64 // as in Record
	after     int64  // the revision of the last record of the process before
	claimed   bool   // the store has its record
	refused   int    // times that it had none, because of another process
	replaced  bool
	renewal   renewal
	proposal  proposal
	unanimity unanimity
	promised  atomic.Bool // the lease is one by promises
}

// rules are the decisions that safety depends on. Tests plant mistakes in them.
type rules struct {
	deadline func(c *Config, sent, replied time.Time) time.Time
	blocked  func(v *view, own identity, now time.Time) (set, time.Time)
	mine     func(v *view, name string, now time.Time) *set
	plan     func(members []shards.Member, before *shards.Assignment) *shards.Assignment
	unites   func(m *Member) bool
	agreed   func(u *unanimity) bool
	named    func(m *Member, now time.Time) bool
	bound    func(m *Member, now time.Time) (by *Record, until time.Time)
}

// New returns a member that does nothing before Run.
func New(c Config) (*Member, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	m := &Member{config: c, inbox: make(chan func(time.Time), 64), rules: rules{
		deadline: func(c *Config, sent, _ time.Time) time.Time { return sent.Add(c.Lease) },
		blocked:  (*view).blocked,
		mine:     func(v *view, name string, _ time.Time) *set { return v.newest().to(name) },
		plan:     shards.Plan,
		unites:   unites,
		agreed:   func(u *unanimity) bool { return len(u.missing) == 0 },
		named:    func(m *Member, now time.Time) bool { return m.unanimity.has(m.view, m.own(), now) },
		bound:    bound,
	}}
	m.view = newView(&m.config)
	m.claim = 1
	m.passing.holding = map[string]*holding{}
	m.renewal.weight = c.Weight
	return m, nil
}

// Run takes part in the fleet until ctx is done; then it closes everything and says so to the others, for which it may take
// one and a half Lease longer. It runs once.
func (m *Member) Run(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { m.watch(running) })
	for ctx.Err() == nil && !m.replaced {
		again := m.act(running, &group, m.config.Clock.Now())
		m.wait(ctx, again)
	}
	m.passing.dropAll(m.config.Gate)
	m.close(m.open)
	if m.replaced {
		return ErrReplaced
	}
	m.renewal.settle()
	stop()
	if !m.rules.named(m, m.config.Clock.Now()) {
		return nil // the name is another's
	}
	return m.resign(ctx)
}

// wait handles one message, or returns at a time.
func (m *Member) wait(ctx context.Context, until time.Time) {
	select {
	case f := <-m.inbox:
		f(m.config.Clock.Now())
		return
	default:
	}
	select {
	case f := <-m.inbox:
		f(m.config.Clock.Now())
	case <-m.config.Clock.After(until.Sub(m.config.Clock.Now())):
	case <-ctx.Done():
	}
}

// post has f called by the member's goroutine.
func (m *Member) post(ctx context.Context, f func(now time.Time)) {
	select {
	case m.inbox <- f:
	case <-ctx.Done():
	}
}

// SetWeight changes the member's weight. It returns when the member knows, or ctx is done.
func (m *Member) SetWeight(ctx context.Context, weight float64) {
	m.post(ctx, func(now time.Time) { m.renewal.weight, m.renewal.next = weight, now })
}

// steady reports whether the member's clock can be believed. Else it gives its lease up, and waits as if it had seen all others, and
// promised all, just now.
func (m *Member) steady() bool {
	if m.config.Clock.Agree() {
		return true
	}
	now := m.config.Clock.Now()
	m.view.doubt(now)
	m.renewal.count++ // what is under way was sent before
	m.renewal.until, m.renewal.next = time.Time{}, now
	m.unanimity.doubt(now, &m.config)
	m.config.Gate.Until(now)
	return false
}

// act does what is due, and returns when to do so again.
func (m *Member) act(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Time {
	if !m.steady() {
		now = m.config.Clock.Now()
	}
	var renews time.Time
	if m.rules.named(m, now) {
		if !now.Before(m.renewal.next) {
			m.renew(ctx, group, now)
		}
		renews = m.renewal.next
	}
	return earliest(now.Add(m.config.Lease), renews, m.pass(ctx, group, now), m.tell(ctx, group, now), m.take(now), m.passing.expire(m.config.Gate, now),
		m.propose(ctx, group, now), m.ask(now))
}

// watch posts what happens in the store.
func (m *Member) watch(ctx context.Context) {
	for ctx.Err() == nil {
		began := m.config.Clock.Now()
		_ = m.config.Store.Watch(ctx, func(e Event) {
			m.post(ctx, func(now time.Time) { m.saw(e, now) })
		}) // whatever it failed of, the next one begins with a read
		m.post(ctx, func(time.Time) { m.view.restarted() })
		select {
		case <-m.config.Clock.After(began.Add(m.config.interval()).Sub(m.config.Clock.Now())):
		case <-ctx.Done():
		}
	}
}

// saw takes an event in, and follows an assignment that is new.
func (m *Member) saw(e Event, now time.Time) {
	m.view.saw(e, now)
	switch {
	case e.Assignment != nil || e.Complete:
		if m.view.epoch != m.epoch {
			m.follow(now)
		}
	case e.Note != nil:
		m.noted(*e.Note, now)
	case e.Record.Member == m.config.Name:
		m.sawName(e.Record)
	default:
		m.passing.left(e.Record)
	}
}

// sawName looks whose the member's record is. After its own first one the store takes none of its predecessors' any more, and has
// one again only if it was set back: then the member takes its name once more, by the same claim.
func (m *Member) sawName(r Record) {
	switch {
	case r.Process == m.config.Process:
		m.started = true
	case r.Claim < m.claim:
		m.started, m.after = false, r.Revision
	case !m.started:
		m.claim, m.after = r.Claim+1, r.Revision
	default:
		m.replaced = true
	}
}

// follow closes what the newest assignment does not give, for what has passed by it a moment later (drains), and only then renews with
// its epoch, which tells the others.
// If it does not follow the one before, one in between may have given anything to somebody who has it open: nothing stays open.
func (m *Member) follow(now time.Time) {
	keep := *m.rules.mine(m.view, m.config.Name, now)
	follows := m.view.epoch == m.seen
	if !follows && m.view.newest().follows == m.seen {
		follows = true
		m.holdOn(&keep)
		m.passing.attract(&m.config, &keep, now)
	}
	switch {
	case !follows:
		keep = set{}
		m.passing.dropAll(m.config.Gate)
	case m.seen != m.epoch:
		keep = keep.both(&m.kept) // what was taken is taken, though it may be given again
	}
	m.seen, m.kept = m.view.epoch, keep
	if follows && m.drains(&keep, now) {
		return
	}
	m.passes(&keep)
	m.close(m.open.minus(&keep))
	m.epoch, m.renewal.next = m.view.epoch, now
}

// close closes shards.
func (m *Member) close(s set) {
	if s.empty() {
		return
	}
	m.config.Gate.Close(s.list())
	m.open = m.open.minus(&s)
}

// take opens what the assignment gives and nobody else may forward, and returns when there may be more.
func (m *Member) take(now time.Time) time.Time {
	want := m.rules.mine(m.view, m.config.Name, now).minus(&m.open)
	if want.empty() || !m.rules.named(m, now) || m.epoch == (Epoch{}) || m.renewal.epoch != m.view.epoch || !m.started { // before its own first record came, so may its predecessor's last
		return time.Time{}
	}
	blocked, again := m.rules.blocked(m.view, m.own(), now)
	if free := want.minus(&blocked); !free.empty() {
		m.openAll(free)
	}
	if !again.After(now) {
		return time.Time{}
	}
	return again
}

func (m *Member) own() identity { return identity{m.config.Name, m.config.Process} }
