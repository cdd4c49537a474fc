// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

const (
	checkEvery = time.Second // how often the follower checks whether the SA has confirmed all registrations
	// How often paths are queried without an event, because a remote port may move without notice.
	pathsEvery = time.Minute
	// How soon a record to which the port could not be updated is tried again; then each time twice as late.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// follower passes the registrar's changes on to the port and to management, and logs them: one line for each reason
// that many registrations share, and one for each registration that the SA rejects.
type follower struct {
	*ibside.News // for management
	renew        RenewFunc
	log          *slog.Logger
	wake         chan struct{}

	mu      sync.Mutex
	changes []Registration // not handled yet

	// Only follow uses these.
	staleSince time.Time                    // zero: the SA has confirmed all registrations
	staleWhy   string                       // as logged last
	unbound    map[ib.GID]ib.MCMemberFields // records to which the port could not be updated
	retry      *time.Timer                  // runs while there are any
	retryAfter time.Duration
}

func newFollower(renew RenewFunc, log *slog.Logger) *follower {
	return &follower{News: ibside.NewNews(), renew: renew, log: log, wake: make(chan struct{}, 1), unbound: map[ib.GID]ib.MCMemberFields{}}
}

// pathsChanged makes management query all paths again.
func (f *follower) pathsChanged() { f.Add(func(r *ibside.Renewals) { r.Paths = true }) }

// back has management try again at once what failed.
func (f *follower) back() { f.Add(func(r *ibside.Renewals) { r.Back = true }) }

// lidsChanged is the registrar's OnEvent: until management has asked again, LIDs say nothing about who has sent a
// message.
func (f *follower) lidsChanged(Event) {
	f.Add(func(r *ibside.Renewals) { r.Paths, r.LIDs, r.Ports = true, true, nil })
}

// portsAtOnce bounds the ports that are named one by one between two calls of Renewed.
const portsAtOnce = 256

// portChanged notes that a port came or went: whose its LIDs are now, the paths tell.
func (f *follower) portChanged(gid ib.GID) {
	f.Add(func(r *ibside.Renewals) {
		r.Paths = true
		switch {
		case r.LIDs:
		case len(r.Ports) >= portsAtOnce:
			r.LIDs, r.Ports = true, nil
		default:
			r.Ports = append(r.Ports, gid)
		}
	})
}

// changed is the registrar's OnChange. It does not block.
func (f *follower) changed(g Registration) {
	f.mu.Lock()
	f.changes = append(f.changes, g)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// follow handles changes until ctx ends. It calls relist when a subscription that was lost is in force again.
func (f *follower) follow(ctx context.Context, r *Registrar, relist func()) {
	check, paths := time.NewTicker(checkEvery), time.NewTicker(pathsEvery)
	f.retry = time.NewTimer(lastRetry)
	defer check.Stop()
	defer paths.Stop()
	defer f.retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
			f.mu.Lock()
			changes := f.changes
			f.changes = nil
			f.mu.Unlock()
			for _, g := range changes {
				f.handle(g, r, relist)
			}
			f.retryIn(firstRetry)
			f.checkStale(r)
		case <-f.retry.C:
			for _, rec := range f.unbound {
				f.rebind(rec)
			}
			f.retryIn(min(2*f.retryAfter, lastRetry))
		case <-check.C:
			f.checkStale(r)
		case <-paths.C:
			f.pathsChanged()
		}
	}
}

func (f *follower) handle(g Registration, r *Registrar, relist func()) {
	var rejected Rejection
	switch {
	case g.Held && g.Kind == KindGroup:
		f.rebind(g.Group)
	case g.Held && g.Kind == KindTrap && !f.staleSince.IsZero():
		f.pathsChanged()
		relist()
	case g.Held:
	case errors.As(g.Err, &rejected):
		f.log.Warn("registration_rejected", "kind", string(g.Kind), "name", g.Name, "error", g.Err)
		f.stale("", r)
	default:
		f.stale(sharedReason(g.Err), r)
	}
}

// stale records that the SA may have lost the registrations.
func (f *follower) stale(why string, r *Registrar) {
	if f.staleSince.IsZero() {
		f.staleSince = time.Now()
	}
	if why != "" && why != f.staleWhy {
		f.staleWhy = why
		f.log.Warn("subnet_stale", "why", why, "registrations", len(r.Registrations()))
		f.pathsChanged()
	}
}

// checkStale checks whether the SA has confirmed all registrations again.
func (f *follower) checkStale(r *Registrar) {
	if f.staleSince.IsZero() || len(r.Lost()) > 0 {
		return
	}
	after := time.Since(f.staleSince).Round(time.Millisecond)
	f.log.Info("subnet_registered", "registrations", len(r.Registrations()), "after", after)
	f.back()
	f.staleSince, f.staleWhy = time.Time{}, ""
	f.pathsChanged()
}

// sharedReason is the reason that many registrations share.
func sharedReason(err error) string {
	for _, shared := range []error{ErrUnreachable, ErrTimeout, ErrNoSM, ErrClosed, ErrMalformed} {
		if errors.Is(err, shared) {
			return shared.Error()
		}
	}
	return err.Error()
}

// rebind updates the port to a group's record, and then management. When the port fails, it is tried again.
func (f *follower) rebind(rec ib.MCMemberFields) {
	err := f.renew(rec, func(m ibside.Membership) {
		f.Add(func(r *ibside.Renewals) {
			if r.Groups == nil {
				r.Groups = map[ib.GID]ibside.Membership{}
			}
			r.Groups[rec.MGID] = m
		})
	})
	if err == nil {
		delete(f.unbound, rec.MGID)
		return
	}
	if f.unbound[rec.MGID] != rec {
		f.log.Warn("group_renew", "mgid", rec.MGID, "mlid", rec.MLID, "error", err)
	}
	f.unbound[rec.MGID] = rec
}

// retryIn has the records to which the port could not be updated be tried again.
func (f *follower) retryIn(d time.Duration) {
	if len(f.unbound) == 0 {
		return
	}
	f.retryAfter = d
	f.retry.Reset(d)
}
