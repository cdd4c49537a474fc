// SPDX-License-Identifier: Apache-2.0

// Package multicast is what InfiniBand ports have in common about multicast groups: which groups a port is a member of,
// and the queue pairs that receive them. Groups of one worker with the same keys share queue pairs:
//
//	group 1 ─┐
//	group 2 ─┼─▶ queue pair (worker 0, Q_Key, P_Key)
//	group 3 ─┘
//	group 4 ───▶ queue pair (worker 1, Q_Key, P_Key)
package multicast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// errClosed is what Bind returns after Close.
var errClosed = errors.New("multicast: the port is closed")

// A QP is a queue pair that receives groups. The MLID is 0 on an Ethernet link layer.
type QP interface {
	Attach(mgid ib.GID, mlid ib.LID) error
	Detach(mgid ib.GID, mlid ib.LID) error
	Destroy() error
}

// A Key says which groups may share a queue pair.
type Key struct {
	Worker int
	QKey   ib.QKey
	PKey   ib.PKey
}

// Config is a port's side of its groups. Its functions must not call Groups.
type Config struct {
	Create func(Key) (QP, error) // makes a queue pair
	MTU    func() ib.MTU         // the port's
	Mbps   func() int            // the port's rate; 0: not known
	PerQP  int                   // how many groups share a queue pair at most
	Log    *slog.Logger
}

// Subnet is subnet administration as Groups use it: sa.Administration.
type Subnet interface {
	// Join makes the port a member in the join state of f, in place of the one it has, and returns the group's record.
	Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error)
	Leave(ctx context.Context, mgid ib.GID) error
}

// Groups are the memberships of one port. Methods may be called from any goroutine.
type Groups struct {
	cfg     Config
	ordered [64]sync.Mutex // by MGID: see order

	mu      sync.Mutex
	members map[ib.GID]*member
	shared  []*sharedQP
	closed  bool
}

// member is a group that the port is a member of.
type member struct {
	ibside.Join
	granted ibside.Membership
	qp      *sharedQP // nil: the port only sends
}

// sharedQP is a queue pair that receives one or more groups.
type sharedQP struct {
	QP
	key    Key
	groups int
}

// New makes a port's groups; there are none yet.
func New(c Config) *Groups { return &Groups{cfg: c, members: map[ib.GID]*member{}} }

// order serializes a join, a leave, and a changed record of one group: of two records, the later one counts. The caller
// calls the result when it is done.
func (g *Groups) order(mgid ib.GID) (end func()) {
	m := &g.ordered[int(mgid[13]^mgid[14]^mgid[15])%len(g.ordered)]
	m.Lock()
	return m.Unlock
}

// Join joins a group by the subnet administrator and makes a queue pair receive it. Other groups may be joined
// meanwhile.
func (g *Groups) Join(ctx context.Context, s Subnet, j ibside.Join) (ibside.Membership, error) {
	defer g.order(j.MGID)()
	f, err := s.Join(ctx, ib.MCMemberFields{MGID: j.MGID, QKey: j.QKey, PKey: j.PKey, JoinState: ib.JoinStateOf(j.Receive, j.NonMember)})
	if err != nil {
		return ibside.Membership{}, err
	}
	m, err := g.Bind(j, membership(f))
	if err != nil && !g.Has(j.MGID) {
		err = errors.Join(err, s.Leave(ctx, j.MGID))
	}
	return m, err
}

// Leave ends a membership that Join began.
func (g *Groups) Leave(ctx context.Context, s Subnet, mgid ib.GID) error {
	defer g.order(mgid)()
	if !g.Unbind(mgid) {
		return fmt.Errorf("multicast: leave %v: not a member", mgid)
	}
	return s.Leave(ctx, mgid)
}

// Renew takes a group's record that has changed: queue pairs receive the group by its new MLID, with its new Q_Key.
// Then it calls done with the membership, before any other change of the group; not when the port is no member.
func (g *Groups) Renew(f ib.MCMemberFields, done func(ibside.Membership)) error {
	defer g.order(f.MGID)()
	g.mu.Lock()
	old := g.members[f.MGID]
	g.mu.Unlock()
	if old == nil {
		return nil
	}
	m, err := g.Bind(old.Join, membership(f))
	if err == nil {
		done(m)
	}
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// membership is what a group's record grants.
func membership(f ib.MCMemberFields) ibside.Membership {
	return ibside.Membership{MLID: f.MLID, SL: f.SL, QKey: f.QKey, HopLimit: f.HopLimit, MTU: f.MTU, Rate: f.Rate}
}

// Has reports whether the port is a member of a group.
func (g *Groups) Has(mgid ib.GID) bool {
	_, ok := g.Joined(mgid)
	return ok
}

// Joined returns how a group was joined.
func (g *Groups) Joined(mgid ib.GID) (ibside.Join, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[mgid]
	if m == nil {
		return ibside.Join{}, false
	}
	return m.Join, true
}

// MGIDs lists the groups, in no order.
func (g *Groups) MGIDs() (all []ib.GID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for mgid := range g.members {
		all = append(all, mgid)
	}
	return all
}

// Close detaches all groups; none can be bound afterwards.
func (g *Groups) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, m := range g.members {
		g.unbind(m)
	}
}

// room returns a queue pair with room for another group: old, one that there is, or a new one.
func (g *Groups) room(key Key, old *member) (*sharedQP, error) {
	if old != nil && old.qp != nil && old.qp.key == key {
		return old.qp, nil
	}
	if i := slices.IndexFunc(g.shared, func(s *sharedQP) bool { return s.key == key && s.groups < g.cfg.PerQP }); i >= 0 {
		return g.shared[i], nil
	}
	qp, err := g.cfg.Create(key)
	if err != nil {
		return nil, err
	}
	s := &sharedQP{QP: qp, key: key}
	g.shared = append(g.shared, s)
	return s, nil
}
