// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage"
)

// Notices implements manage.Notifier.
func (s *subnet) Notices() <-chan manage.Notice { return s.notices }

const (
	subscribeTimeout = 5 * time.Second
	subscribeAgain   = 2 * time.Second
	// listAfter is how long after a new SM has taken the subscriptions its groups are listed: their members register again,
	// too, and what comes meanwhile is told by notices.
	listAfter = 10 * time.Second
)

// listen subscribes to what happens to groups and ports, and passes on what groups there are.
func (s *subnet) listen(ctx context.Context) {
	for _, trap := range []uint16{ib.TrapGroupCreated, ib.TrapGroupDeleted, ib.TrapGIDInService} {
		s.subscribe(ctx, trap)
	}
	known := map[ib.GID]bool{}
	s.list(ctx, known)
	for {
		var list <-chan time.Time
		for list == nil || ctx.Err() == nil {
			select {
			case n := <-s.client.Notices():
				s.noticed(ctx, known, n)
				continue
			case <-s.relist:
				list = time.After(listAfter)
				continue
			case <-list:
				s.list(ctx, known)
			case <-ctx.Done():
				return
			}
			break
		}
	}
}

// subscribe tries until it succeeds; from then on the registrar keeps it.
func (s *subnet) subscribe(ctx context.Context, trap uint16) {
	for logged := false; ctx.Err() == nil; {
		asking, cancel := context.WithTimeout(ctx, subscribeTimeout)
		err := s.keep.Subscribe(asking, trap)
		cancel()
		if err == nil {
			return
		}
		if !logged {
			s.log.Warn("not_subscribed", "trap", trap, "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(subscribeAgain):
		}
	}
}

func (s *subnet) noticed(ctx context.Context, known map[ib.GID]bool, n ib.NoticeFields) {
	gid := n.GID()
	switch n.Trap {
	case ib.TrapGroupCreated:
		s.tell(ctx, known, gid, true)
	case ib.TrapGroupDeleted:
		s.tell(ctx, known, gid, false)
	case ib.TrapGIDInService:
		s.pathsMayDiffer()
	}
}

// list tells which groups there are, and which are no more.
func (s *subnet) list(ctx context.Context, known map[ib.GID]bool) {
	asking, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	all, err := s.client.Groups(asking, 0, ib.MCMemberFields{})
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("groups_unlisted", "error", err, "note", "groups that are there already are learnt by other ways only")
		}
		return
	}
	there := map[ib.GID]bool{}
	for _, f := range all {
		there[f.MGID] = true
		if !known[f.MGID] {
			s.tell(ctx, known, f.MGID, true)
		}
	}
	for mgid := range known {
		if !there[mgid] {
			s.tell(ctx, known, mgid, false)
		}
	}
}

// tell tells management, when it has time.
func (s *subnet) tell(ctx context.Context, known map[ib.GID]bool, mgid ib.GID, there bool) {
	if there {
		known[mgid] = true
	} else {
		delete(known, mgid)
	}
	select {
	case s.notices <- manage.Notice{MGID: mgid, Deleted: !there}:
	case <-ctx.Done():
	}
}
