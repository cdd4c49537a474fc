// SPDX-License-Identifier: Apache-2.0

package multicast

import (
	"errors"
	"fmt"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Bind takes what a join was granted, in place of an earlier membership of the group: a queue pair receives the group
// where it is now. It returns the membership with the port's MTU and rate, if these are less than the group's. On an
// error, all is as before.
func (g *Groups) Bind(j ibside.Join, granted ibside.Membership) (ibside.Membership, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ibside.Membership{}, errClosed
	}
	old, now := g.members[j.MGID], &member{Join: j, granted: granted}
	if j.Receive {
		if err := g.attach(now, old); err != nil {
			return ibside.Membership{}, fmt.Errorf("multicast: attach to %v: %w", j.MGID, err)
		}
	}
	g.members[j.MGID] = now
	if old != nil {
		g.detach(old, now.qp != nil && (now.qp == old.qp || moved(now, old)))
	}
	out := granted
	if mtu := g.cfg.MTU(); out.MTU == 0 || mtu < out.MTU {
		out.MTU = mtu
	}
	out.Rate = out.Rate.Static(g.cfg.Mbps())
	return out, nil
}

// Unbind ends a membership at the port. It reports false when there was none.
func (g *Groups) Unbind(mgid ib.GID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[mgid]
	if m != nil {
		g.unbind(m)
	}
	return m != nil
}

func (g *Groups) unbind(m *member) {
	delete(g.members, m.MGID)
	g.detach(m, false)
}

// attach makes a queue pair receive a group: the one that does so already, one that has room, or a new one.
func (g *Groups) attach(now, old *member) error {
	s, err := g.room(Key{now.Worker, now.granted.QKey, now.PKey}, old)
	if err != nil {
		return err
	}
	s.groups++
	if err := s.take(now, old); err != nil {
		return errors.Join(err, g.release(s))
	}
	now.qp = s
	return nil
}

// moved reports whether a group that is received has another MLID than before.
func moved(now, old *member) bool {
	return old != nil && old.qp != nil && old.granted.MLID != now.granted.MLID
}

// take attaches the queue pair to the group's MLID of now. If that is another than before, the queue pair that received
// the group is detached first: devices know an MLID by its MGID alone, and refuse, or confuse, a second one. It may be
// detached already: an earlier move may have failed half-way, when neither MLID could be attached.
func (s *sharedQP) take(now, old *member) error {
	var detached error
	if moved(now, old) {
		detached = old.qp.Detach(old.MGID, old.granted.MLID)
	}
	err := s.Attach(now.MGID, now.granted.MLID)
	if err == nil {
		return nil
	}
	if moved(now, old) && detached == nil {
		err = errors.Join(err, old.qp.Attach(old.MGID, old.granted.MLID))
	}
	return errors.Join(detached, err)
}

// detach undoes attach. With done, the queue pair has been detached already, or receives the group for a newer
// membership.
func (g *Groups) detach(m *member, done bool) {
	if m.qp == nil {
		return
	}
	var err error
	if !done {
		err = m.qp.Detach(m.MGID, m.granted.MLID)
	}
	if err = errors.Join(err, g.release(m.qp)); err != nil {
		g.cfg.Log.Error("group_detach", "mgid", m.MGID, "error", err)
	}
}

// release counts one group less at a queue pair. The last one destroys it.
func (g *Groups) release(s *sharedQP) error {
	if s.groups--; s.groups > 0 {
		return nil
	}
	for i, o := range g.shared {
		if o == s {
			g.shared = append(g.shared[:i], g.shared[i+1:]...)
			break
		}
	}
	return s.Destroy()
}
