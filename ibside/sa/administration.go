// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Administration is subnet administration for a port of the bridge. The port uses it to join groups and query paths;
// management gets from it the changes that the subnet makes afterwards.
//
//	port ── Join, Leave, Path ──▶ registrar ──▶ SA
//	port ◀─ renew ── follower ◀── registrar       what is granted again, once the SM has come back
//	       management ◀─ Renewed, Notices
//
// Its methods may be called from any goroutine.
type Administration struct {
	client    *Client
	registrar *Registrar
	events    chan Event
	log       *slog.Logger
	stop      context.CancelFunc
	ended     sync.WaitGroup

	*follower
	*groupNotices
	*aliasTable
	*bridgeList

	mu     sync.Mutex
	states map[ib.GID]uint8 // join states of joined groups
}

// A RenewFunc updates a port to a group's changed record. It calls done with the new membership, unless the port is no
// member.
type RenewFunc func(f ib.MCMemberFields, done func(ibside.Membership)) error

// NewAdministration starts subnet administration. The client becomes its own.
func NewAdministration(c *Client, renew RenewFunc, r RegistrarConfig, log *slog.Logger) *Administration {
	const eventsWaiting = 16
	a := &Administration{client: c, events: make(chan Event, eventsWaiting), log: log, states: map[ib.GID]uint8{}}
	a.follower = newFollower(renew, log)
	r.Events, r.OnChange, r.OnEvent = a.events, a.changed, a.lidsChanged
	a.registrar = NewRegistrar(c, r)
	a.groupNotices = newGroupNotices(c, a.registrar, log)
	c.followPorts(a.portChanged)
	a.bridgeList = &bridgeList{client: c, registrar: a.registrar}
	a.aliasTable = newAliasTable(c, a.registrar, a.bridgeList)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.ended.Go(func() { a.follow(ctx, a.registrar, a.relistSoon) })
	a.ended.Go(func() { a.listen(ctx) })
	return a
}

// closeTimeout bounds what Close asks of the SA.
const closeTimeout = 2 * time.Second

// Close withdraws all registrations, and closes the client.
func (a *Administration) Close() error {
	a.stop()
	a.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := a.registrar.WithdrawAll(ctx); err != nil {
		a.log.Warn("subnet_withdraw", "error", err)
	}
	a.registrar.Close()
	c := a.client.Stats()
	a.log.Info("subnet_closed", "requests", c.Requests, "rejected", c.Rejected, "timeouts", c.Timeouts, "notices", c.Notices)
	return a.client.Close()
}

// Join makes the port a member in the join state of f, which replaces its present one, and keeps it a member until
// Leave. If the SA does not support send-only members that create a group (SendOnlyFullMember), the port becomes a full
// member instead.
func (a *Administration) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	got, err := a.registrar.Join(ctx, f)
	if errors.Is(err, RequestInvalid) && f.JoinState == ib.JoinSendOnlyFull {
		f.JoinState = ib.JoinFull
		got, err = a.registrar.Join(ctx, f)
	}
	if err != nil {
		return got, err
	}
	a.mu.Lock()
	before := a.states[f.MGID] &^ f.JoinState
	a.states[f.MGID] = f.JoinState
	a.mu.Unlock()
	if before != 0 && !a.registrar.cfg.Kept(f.MGID) { // the SA adds a new join state to those it has
		if err := a.client.Leave(ctx, f.MGID, ib.GID{}, before); err != nil {
			a.log.Warn("leave_failed", "mgid", f.MGID, "join_state", before, "error", err)
		}
	}
	return got, nil
}

// Leave ends a membership.
func (a *Administration) Leave(ctx context.Context, mgid ib.GID) error {
	a.mu.Lock()
	state := a.states[mgid]
	delete(a.states, mgid)
	a.mu.Unlock()
	err := a.registrar.Leave(ctx, mgid, ib.GID{})
	if errors.Is(err, ErrNotRegistered) && state != 0 { // a later join was rejected: the SA may still have the first
		err = a.client.Leave(ctx, mgid, ib.GID{}, state)
	}
	if errors.Is(err, RequestInvalid) { // the group has ended, and the membership with it
		return nil
	}
	return err
}

// Path returns the path to a port in a partition, and how many LIDs that has; with a P_Key of 0, in any partition. Rate
// and MTU are the path's. A path whose LID can be no port's is an error.
func (a *Administration) Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error) {
	f, err := a.client.pathIn(ctx, dgid, pkey)
	if err != nil {
		return ibside.Path{}, noPath(err)
	}
	p := ibside.Path{LID: f.DLID, SL: f.SL, MTU: f.MTU, Rate: f.Rate, HopLimit: f.HopLimit, GRH: ibside.Routed(f.HopLimit)}
	if !p.LID.IsUnicast() {
		return ibside.Path{}, fmt.Errorf("sa: path to %v: the answer names LID %v, which is no port's: %w",
			dgid, p.LID, ErrMalformed)
	}
	if p.GRH {
		return p, nil // the LID is a router's
	}
	var rejected Rejection
	if p.LMC, err = a.client.LMC(ctx, p.LID); errors.As(err, &rejected) && rejected != Busy {
		a.log.Debug("lmc_unknown", "gid", dgid, "lid", p.LID, "error", err) // an SA need not tell; base LIDs remain
		p.Unconfirmed, err = true, nil
	}
	return p, err
}

// noPath makes an ibside.ErrNoPath of errors that say that the subnet has no such port.
func noPath(err error) error {
	if errors.Is(err, NoRecords) || errors.Is(err, InvalidGID) {
		return fmt.Errorf("%w: %w", ibside.ErrNoPath, err)
	}
	return err
}

// Holder implements ibside.Locator.
func (a *Administration) Holder(ctx context.Context, lid ib.LID) (ib.GID, error) {
	gid, err := a.client.Holder(ctx, lid)
	if err != nil {
		return ib.GID{}, noPath(err)
	}
	return gid, nil
}

// Event reports an event of the port. It does not block: when many events wait, they already make the registrar
// register everything again.
func (a *Administration) Event(e Event) {
	if e != PortDown {
		a.back()
	}
	select {
	case a.events <- e:
	default:
	}
}

// Refresh implements ibside.Administered.
func (a *Administration) Refresh() {
	a.pathsChanged()
	a.back()
	a.registrar.Refresh()
}

var _ ibside.Administered = (*Administration)(nil)
