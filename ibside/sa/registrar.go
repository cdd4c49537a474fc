// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// Event is a reason to assume that the SA has lost all registrations, in words for the log.
type Event string

// The events that a port's owner may get; a registrar finds all but the first by itself as well, a little later.
const (
	Reregister Event = "the SM asks clients to register again" // IBV_EVENT_CLIENT_REREGISTER
	SMChange   Event = "the SM is another"                     // IBV_EVENT_SM_CHANGE
	LIDChange  Event = "the port's LID or GID is another"      // IBV_EVENT_LID_CHANGE
	PortDown   Event = "the port is down"                      // IBV_EVENT_PORT_ERR
	PortActive Event = "the port is active again"              // IBV_EVENT_PORT_ACTIVE
)

// ErrNotRegistered means that there was nothing to withdraw.
var ErrNotRegistered = errors.New("not registered")

// RegistrarConfig has the intervals at which a registrar registers again. Zero values mean the defaults.
type RegistrarConfig struct {
	// Events delivers the events that the port's owner gets. nil: the registrar finds only changes of the port's state.
	Events <-chan Event
	// OnChange is called for each registration that is lost, with the reason, that is in force again, or that has
	// changed. It must not block nor call the registrar.
	OnChange func(Registration)
	// OnEvent is told of each event, also of those found in the port's state, before OnChange. It must not block.
	OnEvent func(Event)

	// Kept reports whether the kernel keeps the port a member of a group, and leaves by itself: the registrar then
	// withdraws no membership. nil: never.
	Kept func(mgid ib.GID) bool

	Watch time.Duration // how often the port's state is read. 1 s
	// How often everything is registered again without an event, as an SM may lose registrations without one. 30 s.
	Refresh time.Duration
	// Spread is the longest pause between an event and the first request: all clients of a subnet get the event of a
	// new SM at the same time. 100 ms
	Spread    time.Duration
	FirstWait time.Duration // before a failed registration is tried again; then twice as long each time. 200 ms
	MaxWait   time.Duration // 20 s
}

func (c RegistrarConfig) withDefaults() RegistrarConfig {
	if c.Kept == nil {
		c.Kept = func(ib.GID) bool { return false }
	}
	set := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&c.Watch, time.Second)
	set(&c.Refresh, 30*time.Second)
	set(&c.Spread, 100*time.Millisecond)
	set(&c.FirstWait, 200*time.Millisecond)
	set(&c.MaxWait, 20*time.Second)
	return c
}

// Registrar keeps memberships, aliases, services and subscriptions registered. After an event it treats all as lost and
// registers them again, in rounds with pauses until all are in force: a subnet manager keeps nothing over a restart,
// and its successor on another port has nothing either.
type Registrar struct {
	client *Client
	cfg    RegistrarConfig

	mu    sync.Mutex
	items map[itemKey]*item

	refresh chan struct{} // see Refresh
	cancel  context.CancelFunc
	ended   chan struct{}
}

// NewRegistrar starts the registrar of a client.
func NewRegistrar(c *Client, cfg RegistrarConfig) *Registrar {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registrar{
		client: c, cfg: cfg.withDefaults(), items: map[itemKey]*item{},
		refresh: make(chan struct{}, 1), cancel: cancel, ended: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Close ends the registrar; the registrations stay at the SA.
func (r *Registrar) Close() {
	r.cancel()
	<-r.ended
}

// Refresh has everything registered again soon, without taking it for lost. It does not block.
func (r *Registrar) Refresh() {
	select {
	case r.refresh <- struct{}{}:
	default:
	}
}

// withdrawTimeout bounds each withdrawal of WithdrawAll.
const withdrawTimeout = 300 * time.Millisecond

// WithdrawAll ends everything that is registered, aliases last, or as much as the SA answers: after the first request
// without an answer, nothing more is withdrawn.
func (r *Registrar) WithdrawAll(ctx context.Context) error {
	r.mu.Lock()
	var keys, aliases []itemKey
	for k := range r.items {
		if k.kind == KindAlias {
			aliases = append(aliases, k)
		} else {
			keys = append(keys, k)
		}
	}
	r.mu.Unlock()
	var errs []error
	for _, k := range append(keys, aliases...) {
		one, cancel := context.WithTimeout(ctx, withdrawTimeout)
		errs = append(errs, r.remove(one, k))
		late := one.Err() != nil
		cancel()
		if late {
			break
		}
	}
	return errors.Join(errs...)
}

// Registrations lists all registrations, sorted by kind and name.
func (r *Registrar) Registrations() []Registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Registration
	for _, it := range r.items {
		all = append(all, it.Registration)
	}
	slices.SortFunc(all, func(a, b Registration) int {
		return strings.Compare(string(a.Kind)+" "+a.Name, string(b.Kind)+" "+b.Name)
	})
	return all
}

// Lost lists the registrations that are not in force now.
func (r *Registrar) Lost() []Registration {
	return slices.DeleteFunc(r.Registrations(), func(g Registration) bool { return g.Held })
}

// add registers an item in place of one with its key. The item is in the list before the SA answers, so that an event
// at that moment applies to it; when the SA rejects it, it is removed again, and so is the old one.
func (r *Registrar) add(ctx context.Context, key itemKey, it *item) (Registration, error) {
	it.busy <- struct{}{}
	r.mu.Lock()
	if old := r.items[key]; old != nil {
		old.gone = true
	}
	r.items[key] = it
	r.mu.Unlock()
	got, err := it.register(ctx, r.client)
	<-it.busy
	if err != nil {
		r.mu.Lock()
		if r.items[key] == it {
			delete(r.items, key)
		}
		r.mu.Unlock()
		return got, err
	}
	r.settle(it, got, nil)
	return got, nil
}

// remove removes an item and withdraws it from the SA.
func (r *Registrar) remove(ctx context.Context, key itemKey) error {
	r.mu.Lock()
	it := r.items[key]
	if it == nil {
		r.mu.Unlock()
		return fmt.Errorf("sa: %s %s: %w", key.kind, key.name, ErrNotRegistered)
	}
	it.gone = true
	delete(r.items, key)
	r.mu.Unlock()
	select {
	case it.busy <- struct{}{}: // a round that has begun with it must not register it after us
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-it.busy }()
	return it.withdraw(ctx, r.client)
}

// settle records the result of an item's registration and reports a change.
func (r *Registrar) settle(it *item, got Registration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := it.Registration
	it.Held, it.Err = err == nil, err
	if err == nil {
		it.Group, it.Alias = got.Group, got.Alias
	}
	if before.Held != it.Held {
		it.Since = time.Now()
	}
	changed := before.Held != it.Held || before.Group != it.Group || before.Alias != it.Alias || words(before.Err) != words(err)
	if changed && !it.gone && r.cfg.OnChange != nil {
		r.cfg.OnChange(it.Registration)
	}
}

// words returns an error's text, so that errors can be compared.
func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// loseAll marks everything as lost.
func (r *Registrar) loseAll(why Event) {
	r.mu.Lock()
	var all []*item
	for _, it := range r.items {
		all = append(all, it)
	}
	r.mu.Unlock()
	for _, it := range all {
		r.settle(it, Registration{}, errors.New(string(why)))
	}
}

// jitter returns d, or up to a quarter more.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// changed returns the change of a port's state after which the SA has probably lost the registrations; "" when there is
// none.
func changed(before, now ib.PortState) Event {
	switch {
	case before.Active && !now.Active:
		return PortDown
	case !before.Active && now.Active:
		return PortActive
	case before.SMLID != now.SMLID:
		return SMChange
	case before.LID != now.LID || before.LMC != now.LMC || before.GID != now.GID:
		return LIDChange
	}
	return ""
}
