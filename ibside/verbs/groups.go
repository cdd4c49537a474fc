// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/multicast"
)

// groupsPerQP spreads groups over multicast queue pairs, so that one that fails takes few groups with it.
const groupsPerQP = 256

// Join implements ibside.Port. It may be called again, to change the membership or to renew it. Without subnet
// administration rdma_cm joins, which has no memberships as a non-member: it joins as a full member then.
func (p *Port) Join(ctx context.Context, j ibside.Join) (ibside.Membership, error) {
	info := p.portInfo()
	switch {
	case j.Worker < 0 || j.Worker >= len(p.workers):
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: worker %d; there are %d", j.MGID, j.Worker, len(p.workers))
	case !j.MGID.IsMulticast():
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: not a multicast GID", j.MGID)
	case !info.Ethernet && !j.MGID.IsIBMulticast():
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: not an MGID of InfiniBand; use mgid = \"rdmacm\" or \"ipoib\"", j.MGID)
	}
	if _, err := p.indexOf(j.PKey); err != nil {
		return ibside.Membership{}, fmt.Errorf("join %v: %w", j.MGID, err)
	}
	if a := p.administration(); a != nil {
		got, err := p.groups.Join(ctx, joinCounter{a, p}, j)
		if err == nil && !j.NonMember {
			p.anchors.put(j.MGID, j.PKey, j.Receive)
		}
		return got, err
	}
	return p.memberships.join(ctx, &info, j)
}

// Leave implements ibside.Port.
func (p *Port) Leave(ctx context.Context, mgid ib.GID) error {
	if a := p.administration(); a != nil {
		err := p.groups.Leave(ctx, a, mgid)
		p.anchors.drop(mgid)
		return err
	}
	return p.memberships.leave(mgid)
}

// newGroups makes the port's side of its groups.
func newGroups(p *Port) *multicast.Groups {
	return multicast.New(multicast.Config{
		Create: p.createGroupQP, MTU: func() ib.MTU { return p.portInfo().MTU },
		Mbps: func() int { return p.portInfo().Mbps }, PerQP: groupsPerQP, Log: p.log,
	})
}

// groupQP is a queue pair that receives groups.
type groupQP struct {
	*queuePair
	table *qpTable
}

func (t *qpTable) createGroupQP(k multicast.Key) (multicast.QP, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, err := t.makeQP(t.workers[k.Worker], qpKind{k.QKey, k.PKey})
	if err != nil {
		return nil, err
	}
	q.groups = true
	return groupQP{q, t}, nil
}

func (q groupQP) Destroy() error {
	q.table.mu.Lock()
	defer q.table.mu.Unlock()
	return q.table.endQP(q.queuePair, q.table.hardware.destroy)
}
