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

// Event is a reason to believe that the SA has forgotten everything, in words for the log.
type Event string

// The events that a port's owner may learn of; a registrar finds all but the first by itself too, a little later.
const (
	Reregister Event = "the SM asks clients to register again" // IBV_EVENT_CLIENT_REREGISTER
	SMChange   Event = "the SM is another"                     // IBV_EVENT_SM_CHANGE
	LIDChange  Event = "the port's LID or GID is another"      // IBV_EVENT_LID_CHANGE
	PortDown   Event = "the port is down"                      // IBV_EVENT_PORT_ERR
	PortActive Event = "the port is active again"              // IBV_EVENT_PORT_ACTIVE
)

// ErrNotRegistered means that there was nothing to withdraw.
var ErrNotRegistered = errors.New("not registered")

// RegistrarConfig says when a registrar registers again. Zero values mean the defaults.
type RegistrarConfig struct {
	// Events tells what the port's owner learns. nil: the registrar sees only what it finds in the port's state.
	Events <-chan Event
	// OnChange is told of each registration that is lost, for which reason, held again, or changed. It must not block nor call the registrar.
	OnChange func(Registration)
	// OnEvent is told of each event, also of those found in the port's state, before OnChange. It must not block.
	OnEvent func(Event)

	Watch   time.Duration // how often the port's state is read. 1 s
	Refresh time.Duration // how often all is registered again without a reason, as an SM may forget in silence. 30 s
	// Spread is the longest pause between an event and the first request: all clients of a subnet learn of a new SM at the
	// same time. 100 ms
	Spread    time.Duration
	FirstWait time.Duration // before what failed is tried again; then twice as long each time. 200 ms
	MaxWait   time.Duration // 20 s
}

func (c RegistrarConfig) withDefaults() RegistrarConfig {
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

// Registrar keeps memberships, aliases, services and subscriptions registered. After an event it counts all as lost and
// registers them again, in rounds with pauses until everything is held: a subnet manager remembers nothing over its end,
// and its successor on another port knows nothing.
type Registrar struct {
	client *Client
	cfg    RegistrarConfig

	mu    sync.Mutex
	items map[itemKey]*item

	cancel context.CancelFunc
	ended  chan struct{}
}

// NewRegistrar starts the registrar of a client.
func NewRegistrar(c *Client, cfg RegistrarConfig) *Registrar {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registrar{client: c, cfg: cfg.withDefaults(), items: map[itemKey]*item{}, cancel: cancel, ended: make(chan struct{})}
	go r.run(ctx)
	return r
}

// Close ends the registrar and leaves all registered.
func (r *Registrar) Close() {
	r.cancel()
	<-r.ended
}

// WithdrawAll ends everything that is registered, aliases last.
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
		errs = append(errs, r.remove(ctx, k))
	}
	return errors.Join(errs...)
}

// Registrations lists all, sorted by kind and name.
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

// Lost lists what is not held now.
func (r *Registrar) Lost() []Registration {
	return slices.DeleteFunc(r.Registrations(), func(g Registration) bool { return g.Held })
}

// add registers an item in place of one with its key. It is known before the SA answers, so that an event at that
// moment counts for it; a refusal makes it unknown again, and the old one too.
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

// remove forgets an item and asks the SA to do so too.
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

// settle notes what came of an item and tells of a change.
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

// words makes errors comparable.
func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// loseAll counts everything as lost.
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

// changed says what in a port's state makes the SA likely to have forgotten registrations; "" when nothing does.
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
