// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// groupsPerQP spreads groups over multicast queue pairs, so that one that fails takes few groups with it.
const groupsPerQP = 256

// Membership is what a join brought: how to send to the group.
type Membership struct {
	MLID      ib.LID // 0 on Ethernet
	SL        ib.SL
	HopLimit  uint8
	TClass    uint8
	FlowLabel uint32
	MTU       ib.MTU
	QKey      ib.QKey

	QP  uint32 // handle of the multicast queue pair that receives; 0: send only
	QPN ib.QPN // its number
}

// joinRequest is what a join was asked for.
type joinRequest struct {
	mgid    ib.GID
	qkey    ib.QKey
	pkey    ib.PKey
	worker  int
	receive bool
	guest   bool // see JoinAsGuest
}

// member is a group that the port is a member of.
type member struct {
	joinRequest
	id      *joinID // nil: nothing had to be joined, or the Subnet did it
	granted cmEvent
	qp      *sharedQP // nil: send only
}

// sharedKey says which groups may share a multicast queue pair: those of one worker with the same keys.
type sharedKey struct {
	worker    int
	qkey      ib.QKey
	pkeyIndex uint16
}

type sharedQP struct {
	key    sharedKey
	qp     *queuePair
	to     attachments // the queue pair's
	groups int         // how many use it
}

// attachments says which groups a queue pair receives.
type attachments interface {
	attach(mgid ib.GID, mlid ib.LID) error
	detach(mgid ib.GID, mlid ib.LID) error
}

// Join makes the port a member of a group: a full one when it is to receive, else one that only sends. With receive, that
// worker gets the group's messages. It may be called again, to change that or to renew the membership.
func (d *Door) Join(ctx context.Context, mgid ib.GID, qkey ib.QKey, pkey ib.PKey, worker int, send, receive bool) (Membership, error) {
	if !send && !receive {
		return Membership{}, fmt.Errorf("verbs: join %v: neither to send nor to receive", mgid)
	}
	return d.joinAs(ctx, joinRequest{mgid: mgid, qkey: qkey, pkey: pkey, worker: worker, receive: receive})
}

// JoinAsGuest is a Join that neither makes the group nor keeps it when its other members have gone. rdma_cm has no such
// memberships: without a Subnet it is a Join.
func (d *Door) JoinAsGuest(ctx context.Context, mgid ib.GID, qkey ib.QKey, pkey ib.PKey, worker int, receive bool) (Membership, error) {
	return d.joinAs(ctx, joinRequest{mgid: mgid, qkey: qkey, pkey: pkey, worker: worker, receive: receive, guest: true})
}

func (d *Door) joinAs(ctx context.Context, r joinRequest) (Membership, error) {
	p, mgid, pkey, worker := d.Port(), r.mgid, r.pkey, r.worker
	pkeyIndex := slices.Index(p.PKeys, pkey)
	switch {
	case worker < 0 || worker >= len(d.workers):
		return Membership{}, fmt.Errorf("verbs: join %v: worker %d; there are %d", mgid, worker, len(d.workers))
	case pkeyIndex < 0:
		return Membership{}, fmt.Errorf("verbs: join %v: %s has no P_Key %v, only %v", mgid, d.cfg.name(), pkey, p.PKeys)
	case !mgid.IsMulticast():
		return Membership{}, fmt.Errorf("verbs: join %v: not a multicast GID", mgid)
	case !p.Ethernet && !mgid.IsIBMulticast():
		return Membership{}, fmt.Errorf("verbs: join %v: not an MGID of InfiniBand; use mgid = \"rdmacm\" or \"ipoib\"", mgid)
	}
	if s := d.administration(); s != nil {
		return d.joinBySubnet(ctx, s, r)
	}
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	if d.isClosing() {
		return Membership{}, errClosed
	}
	return d.join(ctx, &p, r, uint16(pkeyIndex))
}

func (d *Door) isClosing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}

// join has joinMu.
func (d *Door) join(ctx context.Context, p *PortInfo, r joinRequest, pkeyIndex uint16) (Membership, error) {
	id, ev, err := d.request(ctx, p, r)
	if err != nil {
		d.counts.count(func(c *Counters) { c.JoinErrors++ })
		return Membership{}, fmt.Errorf("verbs: join %v on %s: %w", r.mgid, d.cfg.name(), err)
	}
	m, err := d.settle(p, r, pkeyIndex, id, ev)
	if err != nil {
		id.leave()
	}
	return m, err
}

// settle has joinMu. It takes what a join brought, in place of an earlier one.
func (d *Door) settle(p *PortInfo, r joinRequest, pkeyIndex uint16, id *joinID, ev cmEvent) (m Membership, err error) {
	m = Membership{MLID: ev.mlid, SL: ev.sl, HopLimit: ev.hopLimit, TClass: ev.tclass, FlowLabel: ev.flowLabel, MTU: p.MTU, QKey: ev.qkey}
	if p.Ethernet {
		m.QKey = r.qkey // there is no record of the group that could say otherwise
	}
	if ev.mtu != 0 {
		m.MTU = min(m.MTU, ev.mtu)
	}
	now := &member{joinRequest: r, id: id, granted: ev}
	old := d.groups[r.mgid]
	if r.receive {
		now.qp, err = d.attach(now, sharedKey{r.worker, m.QKey, pkeyIndex}, old)
		if err != nil {
			return Membership{}, fmt.Errorf("verbs: attach to %v on %s: %w", r.mgid, d.cfg.name(), err)
		}
		m.QP, m.QPN = now.qp.qp.handle, now.qp.qp.qpn
	}
	d.setGroup(r.mgid, now)
	if old != nil {
		d.detach(old, now.qp == old.qp)
		old.id.leave()
	}
	return m, nil
}

// setGroup has joinMu; nil removes.
func (d *Door) setGroup(mgid ib.GID, m *member) {
	if m == nil {
		delete(d.groups, mgid)
	} else {
		d.groups[mgid] = m
	}
	n := len(d.groups)
	d.counts.count(func(c *Counters) { c.Groups = n })
}

// attach lets a multicast queue pair receive the group: the one that does so already, or one that has room, or a new one.
func (d *Door) attach(m *member, key sharedKey, old *member) (*sharedQP, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var s *sharedQP
	if old != nil && old.qp != nil && old.qp.key == key {
		s = old.qp
	} else if i := slices.IndexFunc(d.shared, func(s *sharedQP) bool { return s.key == key && s.groups < groupsPerQP }); i >= 0 {
		s = d.shared[i]
	}
	if s == nil {
		q, err := d.createQP(d.workers[key.worker], key.qkey, key.pkeyIndex)
		if err != nil {
			return nil, err
		}
		s = &sharedQP{key: key, qp: q, to: q}
		d.shared = append(d.shared, s)
	}
	s.groups++
	if err := s.move(m, old); err != nil {
		return nil, errors.Join(err, d.leaveShared(s))
	}
	return s, nil
}

// move attaches the queue pair to where the group is now. If that is another MLID, the old one goes first: devices know an
// attachment by queue pair and MGID alone, and taking the old one away afterwards would take the new one, too.
func (s *sharedQP) move(m, old *member) error {
	moved := old != nil && old.qp == s && old.granted.mlid != m.granted.mlid
	if moved {
		if err := s.to.detach(old.mgid, old.granted.mlid); err != nil {
			return err
		}
	}
	err := s.to.attach(m.mgid, m.granted.mlid)
	if err != nil && moved {
		err = errors.Join(err, s.to.attach(old.mgid, old.granted.mlid))
	}
	return err
}

// detach undoes attach. With stillAttached, the same queue pair receives the group for a newer membership.
func (d *Door) detach(m *member, stillAttached bool) {
	if m.qp == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if !stillAttached {
		err = m.qp.to.detach(m.mgid, m.granted.mlid)
	}
	if err = errors.Join(err, d.leaveShared(m.qp)); err != nil {
		d.log.Error("group_detach", "mgid", m.mgid, "error", err)
	}
}

// leaveShared has mu. The last group to leave takes the queue pair with it.
func (d *Door) leaveShared(s *sharedQP) error {
	if s.groups--; s.groups > 0 {
		return nil
	}
	d.shared = slices.DeleteFunc(d.shared, func(o *sharedQP) bool { return o == s })
	return d.destroyQP(s.qp)
}

// Leave ends the membership of a group.
func (d *Door) Leave(ctx context.Context, mgid ib.GID) error {
	d.joinMu.Lock()
	m := d.groups[mgid]
	if m != nil {
		d.leave(m)
	}
	d.joinMu.Unlock()
	if m == nil {
		return fmt.Errorf("verbs: leave %v: not a member", mgid)
	}
	if s := d.administration(); s != nil {
		return s.Leave(ctx, mgid)
	}
	return nil
}

// leave has joinMu.
func (d *Door) leave(m *member) {
	d.setGroup(m.mgid, nil)
	d.detach(m, false)
	m.id.leave()
}

func (d *Door) leaveAll() {
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	for _, m := range d.groups {
		d.leave(m)
	}
}

// rejoin renews a membership that the subnet has ended or may have forgotten, again and again until it succeeds, is left,
// or the door closes.
func (d *Door) rejoin(ctx context.Context, mgid ib.GID) {
	for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		again, err := d.rejoinOnce(ctx, mgid)
		if err == nil {
			if again {
				d.counts.count(func(c *Counters) { c.Rejoined++ })
				d.log.Info("group_rejoined", "mgid", mgid)
			}
			return
		}
		d.log.Warn("group_rejoin", "mgid", mgid, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// rejoinOnce reports whether there still was a membership to renew.
func (d *Door) rejoinOnce(ctx context.Context, mgid ib.GID) (bool, error) {
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	m := d.groups[mgid]
	if m == nil || d.isClosing() {
		return false, nil
	}
	p := d.Port()
	index := slices.Index(p.PKeys, m.pkey)
	if index < 0 {
		return true, fmt.Errorf("verbs: %s has lost P_Key %v", d.cfg.name(), m.pkey)
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	_, err := d.join(ctx, &p, m.joinRequest, uint16(index))
	return true, err
}

// startRejoin renews one membership in the background, unless that is being done.
func (d *Door) startRejoin(mgid ib.GID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing || d.rejoining[mgid] {
		return
	}
	d.rejoining[mgid] = true
	d.ended.Go(func() {
		d.rejoin(d.ctx, mgid)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.rejoining, mgid)
	})
}
