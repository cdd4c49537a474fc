// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// services is connection set-up on all members. A queue pair of a node is of one fabric: a conversation is on the member
// that it was set up by.
type services struct {
	*state
	pairs *pairs
	judge *judge
}

// Serve implements ibside.Services. An answer has the queue pair of the member that the request came by.
func (s *services) Serve(ports []ibside.PortRange, h func(ibside.ServiceRequest)) error {
	var errs []error
	for i, m := range s.cfg.Members {
		served := h
		if h != nil {
			served = func(r ibside.ServiceRequest) {
				answer := r.Answer
				r.PKey = s.pkeyFrom(i, r.PKey)
				if r.Sender != "" {
					r.Sender = m.Name + " " + r.Sender // each fabric has its own LIDs
				}
				r.Answer = func(a ibside.ServiceAnswer) error {
					a.QPN = s.pairs.qpnOn(i, a.QPN)
					return answer(a)
				}
				h(r)
			}
		}
		if err := m.Port.Serve(ports, served); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Connect implements ibside.Services. It asks by the node's active member, then by the others that reach it; by the one
// that has answered messages go to the node from then on. When another one has become active meanwhile, that one is asked.
func (s *services) Connect(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	for tries := 1; ; tries++ {
		a, stays, err := s.connect(ctx, c)
		if stays || tries == maxPorts || ctx.Err() != nil {
			return a, err
		}
	}
}

// connect asks the members in turn. stays: what it returns is of use, because the node is on the member that has answered,
// or none has.
func (s *services) connect(ctx context.Context, c ibside.ServiceConnect) (a ibside.ServiceAnswer, stays bool, err error) {
	was := s.active(c.ToGID)
	gids, order := s.cfg.GIDs(c.ToGID), s.order(c.ToGID, was)
	var errs []error
	for k, i := range order {
		a, err := s.connectBy(ctx, i, len(order)-k, gids[i], c)
		var rejected *ibside.Rejected
		if err == nil || errors.As(err, &rejected) {
			return a, s.judge.answeredBy(c.ToGID, i, was), err
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.cfg.Members[i].Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(order) == 0 {
		return a, true, fmt.Errorf("multipath: node %v: no port reaches it", c.ToGID)
	}
	return a, true, errors.Join(errs...)
}

// connectBy asks by one member, with its share of the time that is left, and no longer than it is up if there are others.
func (s *services) connectBy(ctx context.Context, member, shares int, gid ib.GID, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	if shares > 1 {
		var cancel context.CancelFunc
		ctx, cancel = s.judge.whileUp(ctx, member)
		defer cancel()
	}
	if end, ok := ctx.Deadline(); ok && shares > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(shares))
		defer cancel()
	}
	c.ToGID = gid
	if c.PKey != 0 {
		c.PKey = s.pkeyOf(member, c.PKey)
	}
	return s.cfg.Members[member].Port.Connect(ctx, c)
}

// active returns a node's active member; -1: it has none.
func (s *services) active(gid ib.GID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.byGID[gid]; d != nil {
		return d.current
	}
	return -1
}

// order returns the members that may reach a node, the given active one first. If that is down, which the judge may not have
// seen yet, it is the last.
func (s *services) order(gid ib.GID, first int) (order []int) {
	gids := s.cfg.GIDs(gid)
	var up [maxPorts]bool
	s.mu.Lock()
	for i, m := range s.cfg.Members {
		up[i] = s.judge.up(i) && m.Port.Info().Down == ""
	}
	s.mu.Unlock()
	for i, on := range gids {
		if !on.IsZero() && i != first && up[i] {
			order = append(order, i)
		}
	}
	switch {
	case first < 0 || gids[first].IsZero():
		return order
	case up[first]:
		return slices.Insert(order, 0, first)
	}
	return append(order, first)
}
