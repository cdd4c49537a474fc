// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"causeway/config"
)

// An unconfirmed change goes back by itself, unless it is confirmed in time. Nothing of it is in a file: when the
// bridge ends, it is as if it had never been.
type unconfirmed struct {
	before *config.Config
	older  *config.Config // that undo went back to before
	until  time.Time
	timer  *time.Timer
}

// errPending is the error of a change while another one is pending: what that would go back to could not be said.
var errPending = errors.New(`reload: nothing was changed: the change before waits for "confirm"; "reload undo" takes it back`)

const (
	// backWithin bounds how long going back waits for another change to end.
	backWithin = 30 * time.Second
	// backAgain is when it is tried again after it has failed.
	backAgain = 5 * time.Second
)

type tentative struct{} // the key of a time within which a change must be confirmed

// Tentatively makes a change that goes back by itself, unless Confirm is called within a time. Until then there can be
// no other one but Undo. change makes it, with the context that it is given.
func (c *configuration) Tentatively(ctx context.Context, within time.Duration, change func(context.Context) (config.Changes, error)) (config.Changes, error) {
	return change(context.WithValue(ctx, tentative{}, within))
}

// Confirm keeps the pending change.
func (c *configuration) Confirm(ctx context.Context) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if c.pending.Load() == nil {
		return errors.New("reload: no change waits for confirmation")
	}
	c.settle()
	c.log.Info("change_confirmed")
	return nil
}

// Pending returns when the pending change goes back, if there is one.
func (c *configuration) Pending() (until time.Time, is bool) {
	p := c.pending.Load()
	if p == nil {
		return time.Time{}, false
	}
	return p.until, true
}

// await makes the change from before pending, if ctx says so.
func (c *configuration) await(ctx context.Context, before, older *config.Config) {
	within, ok := ctx.Value(tentative{}).(time.Duration)
	if !ok {
		return
	}
	p := &unconfirmed{before: before, older: older, until: time.Now().Add(within)}
	c.pending.Store(p)
	p.timer = time.AfterFunc(within, func() { c.goBack(p) })
	c.log.Info("change_pending", "within", within)
}

// settle leaves the configuration as it is. The caller has the lock.
func (c *configuration) settle() {
	if p := c.pending.Swap(nil); p != nil {
		p.timer.Stop()
	}
}

// goBack takes a pending change back, when its time is over. If that fails, it is tried again.
func (c *configuration) goBack(p *unconfirmed) {
	ctx, done := context.WithTimeout(context.Background(), backWithin)
	defer done()
	unlock, err := c.lock(ctx)
	if err != nil {
		p.timer.Reset(backAgain)
		return
	}
	defer unlock()
	if c.pending.Load() != p { // confirmed, or taken back, meanwhile
		return
	}
	changes, err := c.apply(ctx, p.before)
	if err != nil {
		c.log.Error("change_not_reverted", "error", err)
		p.timer.Reset(backAgain)
		return
	}
	c.before = p.older // undo does not make the change again
	c.settle()
	c.log.Warn("change_reverted", "changes", len(changes))
}

// end forgets a pending change, when the bridge ends.
func (c *configuration) end() {
	c.token <- struct{}{} // a change under way fails now
	defer func() { <-c.token }()
	c.settle()
	c.ended = true
}
