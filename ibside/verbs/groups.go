// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	case !slices.Contains(info.PKeys, j.PKey):
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: %s has no P_Key %v, only %v", j.MGID, p.cfg.name(), j.PKey, info.PKeys)
	case !j.MGID.IsMulticast():
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: not a multicast GID", j.MGID)
	case !info.Ethernet && !j.MGID.IsIBMulticast():
		return ibside.Membership{}, fmt.Errorf("verbs: join %v: not an MGID of InfiniBand; use mgid = \"rdmacm\" or \"ipoib\"", j.MGID)
	}
	if a := p.administration(); a != nil {
		return p.groups.Join(ctx, joinCounter{a, p}, j)
	}
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	return p.joinCM(ctx, &info, j)
}

// Leave implements ibside.Port.
func (p *Port) Leave(ctx context.Context, mgid ib.GID) error {
	if a := p.administration(); a != nil {
		return p.groups.Leave(ctx, a, mgid)
	}
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	if !p.groups.Unbind(mgid) {
		return fmt.Errorf("verbs: leave %v: not a member", mgid)
	}
	p.leaveCM(mgid)
	return nil
}

// joinCM joins by rdma_cm, in place of an earlier membership. The caller has joinMu.
func (p *Port) joinCM(ctx context.Context, info *PortInfo, j ibside.Join) (ibside.Membership, error) {
	if p.isClosing() {
		return ibside.Membership{}, errClosed
	}
	id, granted, err := p.request(ctx, info, j)
	if err != nil {
		p.counts.count(func(c *counters) { c.JoinErrors++ })
		return ibside.Membership{}, fmt.Errorf("verbs: join %v on %s: %w", j.MGID, p.cfg.name(), err)
	}
	m, err := p.groups.Bind(j, granted)
	if err != nil {
		id.leave()
		return m, err
	}
	p.leaveCM(j.MGID)
	p.joins[j.MGID] = id
	return m, nil
}

// leaveCM ends a membership that rdma_cm has joined. The caller has joinMu.
func (p *Port) leaveCM(mgid ib.GID) {
	p.joins[mgid].leave()
	delete(p.joins, mgid)
}

func (p *Port) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// leaveAll leaves the groups that rdma_cm has joined, and detaches all.
func (p *Port) leaveAll() {
	p.groups.Close()
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	for mgid := range p.joins {
		p.leaveCM(mgid)
	}
}

// newGroups makes the port's side of its groups.
func (p *Port) newGroups() *multicast.Groups {
	return multicast.New(multicast.Config{
		Create: p.createGroupQP, PKeyIndex: p.indexOf, MTU: func() ib.MTU { return p.portInfo().MTU }, PerQP: groupsPerQP, Log: p.log,
	})
}

// groupQP is a queue pair that receives groups.
type groupQP struct {
	*queuePair
	port *Port
}

func (p *Port) createGroupQP(k multicast.Key) (multicast.QP, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, err := p.createQP(p.workers[k.Worker], k.QKey, k.PKeyIndex)
	if err != nil {
		return nil, err
	}
	q.groups = true
	return groupQP{q, p}, nil
}

func (q groupQP) Destroy() error {
	q.port.mu.Lock()
	defer q.port.mu.Unlock()
	return q.port.destroyQP(q.queuePair)
}

// rejoin renews a membership that rdma_cm has joined and that the subnet has ended or may have lost. It retries until
// it succeeds, the group is left, or ctx ends.
func (p *Port) rejoin(ctx context.Context, mgid ib.GID) {
	for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		member, err := p.rejoinOnce(ctx, mgid)
		if err == nil {
			if member {
				p.counts.count(func(c *counters) { c.Rejoined++ })
				p.log.Info("group_rejoined", "mgid", mgid)
			}
			return
		}
		p.log.Warn("group_rejoin", "mgid", mgid, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// rejoinOnce reports whether there still was a membership to renew.
func (p *Port) rejoinOnce(ctx context.Context, mgid ib.GID) (bool, error) {
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	j, ok := p.groups.Joined(mgid)
	if !ok || p.isClosing() {
		return false, nil
	}
	if _, err := p.indexOf(j.PKey); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	info := p.portInfo()
	_, err := p.joinCM(ctx, &info, j)
	return true, err
}

// startRejoin renews one membership in the background, unless that is under way.
func (p *Port) startRejoin(mgid ib.GID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.rejoining[mgid] {
		return
	}
	p.rejoining[mgid] = true
	p.ended.Go(func() {
		p.rejoin(p.ctx, mgid)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.rejoining, mgid)
	})
}
