// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"slices"

	"causeway/ibside/ib"
)

// Subnet is subnet administration, as a door on an InfiniBand link layer uses it. What it has joined it keeps: it joins again by
// itself when the subnet manager has forgotten, and whoever owns it calls Renew with each record that has changed.
type Subnet interface {
	// Join makes the port a member in the join state of f, and returns the group's record.
	Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error)
	Leave(ctx context.Context, mgid ib.GID) error
	Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error)
}

// UseSubnet has the door join and find paths by s, instead of rdma_cm. It comes before the first join, at most once. On
// Ethernet it changes nothing: there is no subnet manager. Who owns s ends its memberships after Close.
func (d *Door) UseSubnet(s Subnet) {
	d.portMu.Lock()
	defer d.portMu.Unlock()
	if !d.port.Ethernet {
		d.subnet = s
	}
}

// administration is the Subnet in use, or nil.
func (d *Door) administration() Subnet {
	d.portMu.RLock()
	defer d.portMu.RUnlock()
	return d.subnet
}

// joinState is how the port is a member (IBTA vol 1 §15.2.5.17): full members get messages, as do guests that receive. A full
// one that only sends makes the group, too, when it is not there.
func (r *joinRequest) joinState() uint8 {
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

// joinBySubnet does not hold joinMu while the subnet administrator is busy: others join meanwhile.
func (d *Door) joinBySubnet(ctx context.Context, s Subnet, r joinRequest) (Membership, error) {
	f, err := s.Join(ctx, ib.MCMemberFields{MGID: r.mgid, QKey: r.qkey, PKey: r.pkey, JoinState: r.joinState()})
	if err != nil {
		d.counts.count(func(c *Counters) { c.JoinErrors++ })
		return Membership{}, fmt.Errorf("verbs: join %v on %s: %w", r.mgid, d.cfg.name(), err)
	}
	d.joinMu.Lock()
	if d.isClosing() {
		d.joinMu.Unlock()
		return Membership{}, errClosed
	}
	m, err := d.seat(r, granted(f))
	isNew := d.groups[r.mgid] == nil
	d.joinMu.Unlock()
	if err != nil && isNew {
		if failed := s.Leave(ctx, r.mgid); failed != nil {
			d.log.Warn("group_leave", "mgid", r.mgid, "error", failed)
		}
	}
	return m, err
}

// granted is a record as rdma_cm would tell it.
func granted(f ib.MCMemberFields) cmEvent {
	return cmEvent{
		joined: true, mlid: f.MLID, sl: f.SL, qkey: f.QKey, hopLimit: f.HopLimit, tclass: f.TClass, flowLabel: f.FlowLabel, mtu: f.MTU,
	}
}

// seat has joinMu. It lets a queue pair receive the group where it is now.
func (d *Door) seat(r joinRequest, ev cmEvent) (Membership, error) {
	p := d.Port()
	index := slices.Index(p.PKeys, r.pkey)
	if index < 0 {
		return Membership{}, fmt.Errorf("verbs: %s has lost P_Key %v", d.cfg.name(), r.pkey)
	}
	return d.settle(&p, r, uint16(index), nil, ev)
}

// Renew takes the record of a group that has changed: queue pairs receive the group by its new MLID, and with its new Q_Key. It
// reports false when the port is no member.
func (d *Door) Renew(f ib.MCMemberFields) (Membership, bool, error) {
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	m := d.groups[f.MGID]
	if m == nil || d.isClosing() {
		return Membership{}, false, nil
	}
	got, err := d.seat(m.joinRequest, granted(f))
	return got, true, err
}

// reseat follows a change of the P_Key table: its indexes are the queue pairs'.
func (d *Door) reseat() {
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	for _, m := range d.groups {
		if _, err := d.seat(m.joinRequest, m.granted); err != nil {
			d.log.Warn("group_reseat", "mgid", m.mgid, "error", err)
		}
	}
}

func pathBySubnet(ctx context.Context, s Subnet, dgid ib.GID) (ib.LID, ib.SL, ib.MTU, error) {
	f, err := s.Path(ctx, dgid)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("verbs: path to %v: %w", dgid, err)
	}
	return f.DLID, f.SL, f.MTU, nil
}
