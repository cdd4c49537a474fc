// SPDX-License-Identifier: Apache-2.0

// Package bond decides which members of a bonded Ethernet port carry frames: from their links, and with LACP from what
// the other end says.
//
//	link.Monitor ─▶ SetLink ─┐                ┌▶ dpdk.Bond.Set: a new member sends at once, and is received from when the
//	LACPDUs ──▶ dpdk/lacp ───┼▶ wanted ─▶ step┤   workers have taken what came by the one before
//	clock ───────────────────┘                └▶ log, Changed: the bridge announces its addresses and reports its groups
//
// It runs beside workers and management, and waits for neither: LACP goes on while all workers sleep.
package bond

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"causeway/dpdk/lacp"
)

// A Port is dpdk's Bond.
type Port interface {
	Set(member int, collect, distribute bool) error
	Drained(member int) uint64
	SlowCame() <-chan struct{}
	TakeSlow() (member int, frame []byte)
	SendSlow(member int, frame []byte) error
}

// Config says what a bond is.
type Config struct {
	Port    Port
	Members []string // the names of their interfaces
	LACP    bool     // else one member carries frames: active-backup
	System  [6]byte  // the port's MAC address
	Log     *slog.Logger
	Wake    func() // has workers that sleep poll once more
	Changed func() // is called when other members carry frames than before
}

const (
	// drainMost is how long a member that has lost its link may still have frames that workers have not taken. They poll
	// each few microseconds, or when they are woken.
	drainMost = 20 * time.Millisecond
	// look is how often it is looked whether they have.
	look = time.Millisecond
	// retry is how often what a driver does not take yet is tried again: net_bonding looks for links each 10 ms.
	retry = 5 * time.Millisecond
	// failOver is how long a fail-over may take, in which no member carries frames.
	failOver = 100 * time.Millisecond
	// settle is for how long after a change all is told to net_bonding again and again: it forgets what it was told when it
	// finds a change of the link itself, as with taps.
	settle, settleEvery = 500 * time.Millisecond, 20 * time.Millisecond
	// tellEvery is how often, with LACP, a change is told: it moves no address to another place.
	tellEvery = time.Second
)

// A Member is a member as it is.
type Member struct {
	Name     string
	Up       bool   // its link
	Carries  bool   // frames are sent and received by it
	Why      string // it does not; "": it does
	Standby  bool   // it could, and waits for another to fail
	Since    time.Time
	Changes  uint64 // how often it has begun or ceased
	Protocol lacp.Port

	noLink                string
	collects, sends       bool // as net_bonding has it
	wantCollect, wantSend bool
	drain                 uint64 // what Drained was when it was to cease
	drainEnd              time.Time
	draining, pending     bool
}

// A Bond decides for one port.
type Bond struct {
	Config
	kick chan struct{} // something is due earlier

	mu      sync.Mutex
	members []Member
	lacp    *lacp.Bond // nil: active-backup
	active  int        // the member in use of active-backup
	next    time.Time
	settled time.Time // all is told again until then
	told    time.Time // the last Changed
	toTell  bool
	down    time.Time // since when none carries frames; zero: one does, or none has yet
	said    bool      // that it is down
}

// New makes a bond whose members have no links yet.
func New(c Config) *Bond {
	b := &Bond{Config: c, kick: make(chan struct{}, 1)}
	now := time.Now()
	for _, name := range c.Members {
		b.members = append(b.members, Member{Name: name, Why: NoCarrier, noLink: NoCarrier, Since: now})
	}
	if c.LACP {
		b.lacp = lacp.New(c.System, len(c.Members), b.sendSlow)
	}
	return b
}

func (b *Bond) sendSlow(member int, frame []byte) {
	_ = b.Port.SendSlow(member, frame) // LACP sends another within a second
	b.Wake()
}

// Run does what is due until ctx ends.
func (b *Bond) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
		case <-b.Port.SlowCame():
			b.receive()
		case <-timer.C:
			b.do(func(time.Time) {})
		}
		b.mu.Lock()
		timer.Reset(time.Until(b.next))
		b.mu.Unlock()
	}
}

// do has f change something, and what follows from it done.
func (b *Bond) do(f func(now time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	f(now)
	b.step(now)
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// NoCarrier is why most members have no link.
const NoCarrier = "it has no carrier"

// SetLink tells that a member has a link, or why it has none; "": it has.
func (b *Bond) SetLink(member int, why string) {
	b.do(func(now time.Time) {
		m, up := &b.members[member], why == ""
		m.noLink = why
		if m.Up == up {
			return
		}
		m.Up = up
		b.settled = now.Add(settle)
		if b.lacp != nil {
			b.lacp.SetLink(now, member, up)
		}
	})
}

func (b *Bond) receive() {
	b.do(func(now time.Time) {
		for member, frame := b.Port.TakeSlow(); frame != nil; member, frame = b.Port.TakeSlow() {
			if b.lacp != nil {
				b.lacp.Receive(now, member, frame)
			}
		}
	})
}

// Leave tells the other ends that the bond carries nothing any more.
func (b *Bond) Leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lacp != nil {
		b.lacp.Leave()
	}
}

// Members returns the members as they are.
func (b *Bond) Members() []Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := append([]Member(nil), b.members...)
	if b.lacp != nil {
		for i, p := range b.lacp.Ports() {
			out[i].Protocol = p
		}
	}
	return out
}

// step does what is due.
func (b *Bond) step(now time.Time) {
	b.next = now.Add(time.Minute)
	if b.lacp != nil {
		b.next = b.lacp.Tick(now)
	}
	b.want()
	if now.Before(b.settled) {
		b.dueAt(now.Add(settleEvery))
	}
	for i := range b.members {
		b.cease(now, i)
	}
	for i := range b.members {
		b.begin(now, i)
	}
	b.say(now)
	b.tell(now)
}

func (b *Bond) dueAt(t time.Time) {
	if t.Before(b.next) {
		b.next = t
	}
}

// want decides who is to carry frames. Of active-backup it is the member in use while that has a link, so that one that
// comes back costs nothing; then the first that has.
func (b *Bond) want() {
	if b.lacp != nil {
		for i, p := range b.lacp.Ports() {
			b.members[i].wantCollect, b.members[i].wantSend = p.Collecting, p.Distributing
		}
		return
	}
	if !b.members[b.active].Up {
		for i := range b.members {
			if b.members[i].Up {
				b.active = i
				break
			}
		}
	}
	for i := range b.members {
		m := &b.members[i]
		m.wantSend = i == b.active && m.Up
		m.wantCollect = m.wantSend
	}
}

// cease has a member send no more, and when workers have taken what it had received, receive no more.
func (b *Bond) cease(now time.Time, i int) {
	m := &b.members[i]
	if m.wantCollect {
		m.draining = false
		return
	}
	if m.collects && !m.draining {
		m.draining, m.drain, m.drainEnd = true, b.Port.Drained(i), now.Add(drainMost)
		b.Wake()
	}
	if m.draining && b.Port.Drained(i) < m.drain+2 && now.Before(m.drainEnd) {
		b.set(now, i, true, false)
		b.dueAt(now.Add(look))
		return
	}
	m.draining = false
	b.set(now, i, false, false)
}

// begin has a member send, and receive as soon as no frame of the member before it can come late.
func (b *Bond) begin(now time.Time, i int) {
	m := &b.members[i]
	if !m.wantCollect {
		return
	}
	collect := true
	for j := range b.members {
		if b.lacp == nil && b.members[j].draining {
			collect = false
		}
	}
	b.set(now, i, collect, m.wantSend)
}

// set tells net_bonding, unless it knows.
func (b *Bond) set(now time.Time, i int, collect, send bool) {
	m := &b.members[i]
	if m.collects == collect && m.sends == send && !m.pending && !now.Before(b.settled) {
		return
	}
	err := b.Port.Set(i, collect, send)
	m.pending = err != nil
	if err == nil {
		m.collects, m.sends = collect, send
		return
	}
	m.collects, m.sends = false, false
	b.dueAt(now.Add(retry))
}

// say logs which members have begun and ceased to carry frames.
func (b *Bond) say(now time.Time) {
	carries := 0
	for i := range b.members {
		m := &b.members[i]
		m.Why, m.Standby = b.why(i)
		is := m.sends // who also receives, or will in a moment
		if is {
			carries++
		}
		if is == m.Carries {
			continue
		}
		m.Carries, m.Since, b.toTell, b.settled = is, now, true, now.Add(settle)
		m.Changes++
		b.dueAt(now.Add(settleEvery))
		if is {
			b.Log.Info("bond_member_on", "member", m.Name)
		} else {
			b.Log.Warn("bond_member_off", "member", m.Name, "note", m.Why)
		}
	}
	if carries == 0 && b.down.IsZero() && b.toTell {
		b.down = now
	}
	switch {
	case carries > 0:
		b.down, b.said = time.Time{}, false
	case b.down.IsZero() || b.said:
	case now.Sub(b.down) < failOver:
		b.dueAt(b.down.Add(failOver))
	default:
		b.said = true
		b.Log.Error("bond_down", "note", b.whyDown())
	}
}

// tell has the other end learn where the bridge is.
func (b *Bond) tell(now time.Time) {
	switch {
	case !b.toTell:
	case !b.down.IsZero():
		b.toTell = false
	case b.lacp != nil && now.Sub(b.told) < tellEvery:
		b.dueAt(b.told.Add(tellEvery))
	default:
		b.toTell, b.told = false, now
		b.Changed()
	}
}
