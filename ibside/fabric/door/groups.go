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

// joined is a group that the bridge is a member of.
type joined struct {
	state uint8 // the join state
	qp    *sharedQP
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
func (b *Bridge) Join(ctx context.Context, mgid ib.GID, qkey ib.QKey, pkey ib.PKey, worker int, send, receive bool) (Membership, error) {
	pkeyIndex := slices.Index(b.hca.Info().PKeys, pkey)
	switch {
	case !send && !receive:
		return Membership{}, fmt.Errorf("fabric/door: join %v: neither to send nor to receive", mgid)
	case worker < 0 || worker >= len(b.workers):
		return Membership{}, fmt.Errorf("fabric/door: join %v: worker %d; there are %d", mgid, worker, len(b.workers))
	case pkeyIndex < 0:
		return Membership{}, fmt.Errorf("fabric/door: join %v: the port has no P_Key %v", mgid, pkey)
	}
	b.joinMu.Lock()
	defer b.joinMu.Unlock()
	state := uint8(ib.JoinSendOnlyFull)
	if receive {
		state = ib.JoinFull
	}
	rec, err := b.sa.Join(ctx, ib.MCMemberFields{MGID: mgid, QKey: qkey, PKey: pkey, JoinState: state})
	if err != nil {
		return Membership{}, err
	}
	now := &joined{state: state}
	if receive {
		if now.qp, err = b.attach(mgid, sharedKey{worker, rec.QKey, uint16(pkeyIndex)}); err != nil {
			b.release(mgid, now.qp, false)
			return Membership{}, errors.Join(err, b.sa.Leave(ctx, mgid, state))
		}
	}
	if err := b.replace(ctx, mgid, now); err != nil {
		return Membership{}, err
	}
	return membership(&rec, now.qp), nil
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

// replace puts a membership in the place of the one there was, if any.
func (b *Bridge) replace(ctx context.Context, mgid ib.GID, now *joined) error {
	old := b.groups[mgid]
	b.groups[mgid] = now
	if old == nil {
		return nil
	}
	b.release(mgid, old.qp, old.qp == now.qp)
	if old.state == now.state {
		return nil
	}
	var refused *fabric.SAError
	if err := b.sa.Leave(ctx, mgid, old.state); err != nil && !errors.As(err, &refused) { // refused: forgotten already
		return err
	}
	return nil
}

// Leave ends the membership of a group.
func (b *Bridge) Leave(ctx context.Context, mgid ib.GID) error {
	b.joinMu.Lock()
	defer b.joinMu.Unlock()
	return b.leave(ctx, mgid)
}

func (b *Bridge) leave(ctx context.Context, mgid ib.GID) error {
	j := b.groups[mgid]
	if j == nil {
		return fmt.Errorf("fabric/door: leave %v: not a member", mgid)
	}
	delete(b.groups, mgid)
	b.release(mgid, j.qp, false)
	return b.sa.Leave(ctx, mgid, j.state)
}

func (b *Bridge) leaveAll(ctx context.Context) error {
	b.joinMu.Lock()
	defer b.joinMu.Unlock()
	var all error
	for mgid := range b.groups {
		var refused *fabric.SAError
		err := b.leave(ctx, mgid)
		if errors.As(err, &refused) || errors.Is(err, fabric.ErrClosed) {
			continue // the membership has ended already
		}
		all = errors.Join(all, err)
	}
	return all
}

// Path asks the SA how to send to a port of the subnet.
func (b *Bridge) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, ib.MTU, error) {
	p, err := b.sa.Path(ctx, dgid)
	return p.DLID, p.SL, p.MTU, err
}
