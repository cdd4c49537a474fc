// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// nodes resolves the paths to nodes on all members.
type nodes struct {
	*state
	judge *judge
	slids [maxPorts]map[ib.LID]*destination // whose a member's LIDs are
}

func newNodes(s *state, j *judge) *nodes {
	n := &nodes{state: s, judge: j}
	for i := range n.slids {
		n.slids[i] = map[ib.LID]*destination{}
	}
	return n
}

const pathTimeout = 5 * time.Second

// Path implements ibside.Port. The LID is the Port's own. It returns when all members have answered or failed, or soon
// after the first has answered. A member whose subnet does not answer keeps the way that it has.
func (n *nodes) Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error) {
	answers := make(chan error, maxPorts)
	asked := 0
	for i, gid := range n.cfg.GIDs(dgid) {
		if gid.IsZero() {
			continue
		}
		asked++
		n.attempts.Go(func() { answers <- n.ask(i, dgid, gid, pkey) })
	}
	var errs []error
	var enough <-chan time.Time
	for range asked {
		select {
		case err := <-answers:
			if err != nil {
				errs = append(errs, err)
			} else if enough == nil {
				enough = time.After(n.othersWait)
			}
			continue
		case <-enough:
		case <-ctx.Done():
			return ibside.Path{}, ctx.Err()
		}
		break
	}
	if path, ok := n.path(dgid); ok {
		return path, nil
	}
	if asked == 0 {
		return ibside.Path{}, fmt.Errorf("multipath: %v is on no fabric: %w", dgid, ibside.ErrNoPath)
	}
	return ibside.Path{}, errors.Join(errs...)
}

// The most nodes that are looked for in one second, and how often one is.
const (
	mostLooked = 64
	lookEvery  = 30 * time.Second
)

// lookAgain asks for the paths that members do not have, and for those to other GIDs than a node has by now.
func (n *nodes) lookAgain(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	looked := 0
	for _, d := range n.byGID {
		if d.view.group || now.Sub(d.looked) < lookEvery || looked == mostLooked {
			continue
		}
		d.looked = now
		for i, gid := range n.cfg.GIDs(d.view.gid) {
			switch {
			case gid == d.view.ways[i].dgid:
			case gid.IsZero():
				n.forget(d, i)
			case n.judge.up(i) && !n.judge.health[i].silent:
				looked++
				n.attempts.Go(func() { _ = n.ask(i, d.view.gid, gid, d.pkey) })
			}
		}
	}
}

// path returns the way to a node if any member has one.
func (n *nodes) path(gid ib.GID) (ibside.Path, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.byGID[gid]
	if d == nil || d.current < 0 {
		return ibside.Path{}, false
	}
	d.settle()
	return ibside.Path{LID: d.lid, SL: d.view.sl, MTU: n.leastMTU(d), HopLimit: 1}, true
}

// ask asks one member for the path to a node that has this GID on its fabric.
func (n *nodes) ask(member int, dgid, gid ib.GID, pkey ib.PKey) error {
	ctx, cancel := context.WithTimeout(n.ctx, pathTimeout)
	defer cancel()
	m := n.cfg.Members[member]
	p, err := m.Port.Path(ctx, gid, n.pkeyOf(member, pkey))
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.byGID[dgid]
	switch {
	case err == nil && d == nil:
		d, err = n.add(dgid, false, p.LID)
	case err != nil && d != nil && errors.Is(err, ibside.ErrNoPath):
		n.forget(d, member)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	d.mtu[member], d.pkey = p.MTU, pkey
	n.nameLIDs(d, member, &p)
	err = n.setWay(d, member, way{dgid: gid, lid: p.LID, sl: p.SL, rate: p.Rate, hopLimit: p.HopLimit, grh: p.GRH})
	n.judge.place(d)
	return err
}

// forget takes a member's way to a node away. The caller holds the lock.
func (n *nodes) forget(d *destination, member int) {
	n.forgetLIDs(d, member, nil)
	_ = n.setWay(d, member, way{}) // it needs no room
	n.judge.place(d)
}

// forgetLIDs has a member's LIDs of a node name nobody, but for those that it keeps; nil: none. The caller holds the lock.
func (n *nodes) forgetLIDs(d *destination, member int, keeps func(ib.LID) bool) {
	for lid, of := range n.slids[member] {
		if of == d && (keeps == nil || !keeps(lid)) {
			delete(n.slids[member], lid)
			n.tables.putSLID(member, lid, 0)
		}
	}
}

// nameLIDs makes the LIDs of a path name its node as the source of messages without a GRH. Those of a router name
// nobody, and neither does one that two nodes have. A LID that the node keeps names it all the time. The caller holds the
// lock.
func (n *nodes) nameLIDs(d *destination, member int, p *ibside.Path) {
	first, lids := p.LID.Base(p.LMC), ib.LID(1)<<p.LMC
	if ibside.Routed(p.HopLimit) {
		lids = 0
	}
	n.forgetLIDs(d, member, func(lid ib.LID) bool { return lid-first < lids })
	for lid := first; lid-first < lids; lid++ {
		if of := n.slids[member][lid]; of != nil && of != d {
			n.tables.putSLID(member, lid, 0)
			continue
		}
		n.slids[member][lid] = d
		n.tables.putSLID(member, lid, d.lid)
	}
}

// lidsMoved forgets whose the LIDs of a member's fabric are. The caller holds the lock.
func (n *nodes) lidsMoved(member int) {
	clear(n.slids[member])
	n.tables.forgetSLIDs(member)
}

// nodesWith returns the nodes that have a GID on a member's fabric. The caller holds the lock.
func (n *nodes) nodesWith(member int, gid ib.GID) (all []*destination) {
	for _, d := range n.byGID {
		if !d.view.group && d.has(member) && d.view.ways[member].dgid == gid {
			all = append(all, d)
		}
	}
	return all
}
