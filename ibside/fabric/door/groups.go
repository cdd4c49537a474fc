// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// PortInfo is what management must know of the bridge's InfiniBand port.
type PortInfo struct {
	GID   ib.GID
	LID   ib.LID
	MTU   ib.MTU
	PKeys []ib.PKey
}

// Membership is what a join brought: how to send to the group.
type Membership struct {
	MLID      ib.LID
	SL        ib.SL
	HopLimit  uint8
	TClass    uint8
	FlowLabel uint32
	MTU       ib.MTU
	QKey      ib.QKey
	Rate      ib.Rate

	QP  uint32 // handle of the multicast queue pair that receives; 0: send only
	QPN ib.QPN // its number
}

// Subnet is subnet administration as a Bridge uses it. What it has joined it keeps, until it is told to leave; who owns it
// ends its memberships after Close, and calls Renew with each record that has changed.
type Subnet interface {
	// Join makes the port a member in the join state of f, instead of the one it has, and returns the group's record.
	Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error)
	Leave(ctx context.Context, mgid ib.GID) error
	Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error)
}

// UseSubnet says by what the bridge joins and finds paths. It comes before the first of these.
func (b *Bridge) UseSubnet(s Subnet) { b.subnet = s }

// joinRequest is what Join was asked for.
type joinRequest struct {
	mgid           ib.GID
	qkey           ib.QKey
	pkey           ib.PKey
	worker         int
	receive, guest bool
}

// joined is a group that the bridge is a member of.
type joined struct {
	joinRequest
	qp *sharedQP // nil: send only
}

// sharedKey says which groups share a multicast queue pair: those of one worker with the same keys.
type sharedKey struct {
	worker    int
	qkey      ib.QKey
	pkeyIndex uint16
}

type sharedQP struct {
	key    sharedKey
	handle uint32
	qp     *fabric.QP
	groups int // how many use it
}

// HCA returns the adapter, for the management classes that the Bridge does not speak itself.
func (b *Bridge) HCA() *fabric.HCA { return b.hca }

// Port describes the port. It does not change.
func (b *Bridge) Port() PortInfo {
	i := b.hca.Info()
	return PortInfo{GID: i.GID, LID: i.LID, MTU: i.MTU, PKeys: i.PKeys}
}

// CreateStandIn makes a queue pair that stands for a RoCE host's. It receives with qkey, on that worker, and only
// that worker may send from it.
func (b *Bridge) CreateStandIn(worker int, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	if worker < 0 || worker >= len(b.workers) {
		return 0, 0, fmt.Errorf("fabric/door: stand-in for worker %d; there are %d", worker, len(b.workers))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, q, err := b.createQP(worker, qkey, b.pkeyIndex)
	if err != nil {
		return 0, 0, err
	}
	return h, q.QPN(), nil
}

// createQP has the lock.
func (b *Bridge) createQP(worker int, qkey ib.QKey, pkeyIndex uint16) (uint32, *fabric.QP, error) {
	q, err := b.hca.CreateQP(fabric.QPConfig{QKey: qkey, PKeyIndex: pkeyIndex, Recv: b.workers[worker].recv})
	if err != nil {
		return 0, nil, err
	}
	b.lastQP++
	b.qps[b.lastQP] = handle{q, worker}
	return b.lastQP, q, nil
}

// DestroyStandIn destroys a queue pair of CreateStandIn. What a worker still posts for it is dropped.
func (b *Bridge) DestroyStandIn(qp uint32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.qps[qp]
	if !ok || b.isShared(qp) {
		return fmt.Errorf("fabric/door: there is no stand-in with handle %d", qp)
	}
	delete(b.qps, qp)
	h.qp.Destroy()
	return nil
}

func (b *Bridge) isShared(qp uint32) bool {
	for _, s := range b.shared {
		if s.handle == qp {
			return true
		}
	}
	return false
}

// Join makes the port a member of a group: a full one when it is to receive, else one that only sends. A group that is
// not there is created. With receive, that worker gets the group's messages. It may be called again, to
// change that or to repeat a join that the SA forgot.
func (b *Bridge) Join(ctx context.Context, mgid ib.GID, qkey ib.QKey, pkey ib.PKey, worker int, receive bool) (Membership, error) {
	return b.join(ctx, joinRequest{mgid: mgid, qkey: qkey, pkey: pkey, worker: worker, receive: receive})
}

// JoinAsGuest is a Join that neither makes the group nor keeps it when its other members have gone.
func (b *Bridge) JoinAsGuest(ctx context.Context, mgid ib.GID, qkey ib.QKey, pkey ib.PKey, worker int, receive bool) (Membership, error) {
	return b.join(ctx, joinRequest{mgid: mgid, qkey: qkey, pkey: pkey, worker: worker, receive: receive, guest: true})
}

// state is how the port is a member (IBTA vol 1 §15.2.5.17).
func (r *joinRequest) state() uint8 {
	switch {
	case r.guest && r.receive:
		return ib.JoinNonMember
	case r.guest:
		return ib.JoinSendOnly
	case r.receive:
		return ib.JoinFull
	}
	return ib.JoinSendOnlyFull
}

func (b *Bridge) join(ctx context.Context, r joinRequest) (Membership, error) {
	switch {
	case r.worker < 0 || r.worker >= len(b.workers):
		return Membership{}, fmt.Errorf("fabric/door: join %v: worker %d; there are %d", r.mgid, r.worker, len(b.workers))
	case !slices.Contains(b.hca.Info().PKeys, r.pkey):
		return Membership{}, fmt.Errorf("fabric/door: join %v: the port has no P_Key %v", r.mgid, r.pkey)
	}
	rec, err := b.subnet.Join(ctx, ib.MCMemberFields{MGID: r.mgid, QKey: r.qkey, PKey: r.pkey, JoinState: r.state()})
	if err != nil {
		return Membership{}, err
	}
	b.joinMu.Lock()
	m, err := b.seat(r, &rec)
	isNew := b.groups[r.mgid] == nil
	b.joinMu.Unlock()
	if err != nil && isNew {
		err = errors.Join(err, b.subnet.Leave(ctx, r.mgid))
	}
	return m, err
}

// seat lets a queue pair receive the group, instead of the one that did. It has joinMu.
func (b *Bridge) seat(r joinRequest, rec *ib.MCMemberFields) (Membership, error) {
	now := &joined{joinRequest: r}
	if r.receive {
		var err error
		index := slices.Index(b.hca.Info().PKeys, r.pkey)
		if now.qp, err = b.attach(r.mgid, sharedKey{r.worker, rec.QKey, uint16(index)}); err != nil {
			b.release(r.mgid, now.qp, false)
			return Membership{}, err
		}
	}
	old := b.groups[r.mgid]
	b.groups[r.mgid] = now
	if old != nil {
		b.release(r.mgid, old.qp, old.qp == now.qp)
	}
	return membership(rec, now.qp), nil
}

// Renew takes the record of a group that has changed. It reports false when the port is no member.
func (b *Bridge) Renew(rec ib.MCMemberFields) (Membership, bool, error) {
	b.joinMu.Lock()
	defer b.joinMu.Unlock()
	j := b.groups[rec.MGID]
	if j == nil {
		return Membership{}, false, nil
	}
	m, err := b.seat(j.joinRequest, &rec)
	return m, true, err
}

func membership(rec *ib.MCMemberFields, s *sharedQP) Membership {
	m := Membership{
		MLID: rec.MLID, SL: rec.SL, HopLimit: rec.HopLimit, TClass: rec.TClass, FlowLabel: rec.FlowLabel,
		MTU: rec.MTU, QKey: rec.QKey, Rate: rec.Rate,
	}
	if s != nil {
		m.QP, m.QPN = s.handle, s.qp.QPN()
	}
	return m
}

// attach lets a multicast queue pair, made when it is the first group's, receive mgid.
func (b *Bridge) attach(mgid ib.GID, key sharedKey) (*sharedQP, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shared[key]
	if s == nil {
		h, q, err := b.createQP(key.worker, key.qkey, key.pkeyIndex)
		if err != nil {
			return nil, err
		}
		s = &sharedQP{key: key, handle: h, qp: q}
		b.shared[key] = s
	}
	s.groups++
	return s, s.qp.AttachMulticast(mgid)
}

// release undoes attach. With stillAttached, the same queue pair receives mgid for a newer membership.
func (b *Bridge) release(mgid ib.GID, s *sharedQP, stillAttached bool) {
	if s == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !stillAttached {
		s.qp.DetachMulticast(mgid)
	}
	if s.groups--; s.groups == 0 {
		delete(b.shared, s.key)
		delete(b.qps, s.handle)
		s.qp.Destroy()
	}
}

// Leave ends the membership of a group.
func (b *Bridge) Leave(ctx context.Context, mgid ib.GID) error {
	if !b.unseat(mgid) {
		return fmt.Errorf("fabric/door: leave %v: not a member", mgid)
	}
	return b.subnet.Leave(ctx, mgid)
}

// unseat lets no queue pair receive the group any more. It reports false when none did, and none sent.
func (b *Bridge) unseat(mgid ib.GID) bool {
	b.joinMu.Lock()
	defer b.joinMu.Unlock()
	j := b.groups[mgid]
	if j == nil {
		return false
	}
	delete(b.groups, mgid)
	b.release(mgid, j.qp, false)
	return true
}

// Path asks the SA how to send to a port of the subnet.
func (b *Bridge) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, ib.MTU, error) {
	p, err := b.subnet.Path(ctx, dgid)
	return p.DLID, p.SL, p.MTU, err
}
