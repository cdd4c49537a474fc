// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/lcore/manage"
)

const (
	retryEvery = time.Second // what a door could not follow is tried again
	pathsEvery = time.Minute // paths are asked for without a reason: a port may move in silence
)

// doubts is what is registered and may be forgotten. Only follow uses it.
type doubts struct {
	since    time.Time // zero: all is held
	why      string    // as logged last
	unseated map[ib.GID]ib.MCMemberFields
}

// changed is told by the registrar. It must not block.
func (s *subnet) changed(g sa.Registration) {
	s.mu.Lock()
	s.told = append(s.told, g)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// follow has the door and management follow what the registrar tells, and the log name it.
func (s *subnet) follow(ctx context.Context) {
	retry, paths := time.NewTicker(retryEvery), time.NewTicker(pathsEvery)
	defer retry.Stop()
	defer paths.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			s.mu.Lock()
			told := s.told
			s.told = nil
			s.mu.Unlock()
			for _, g := range told {
				s.take(g)
			}
			s.settleDoubts()
		case <-retry.C:
			for _, f := range s.doubts.unseated {
				s.regrant(f)
			}
			s.settleDoubts()
		case <-paths.C:
			s.pathsMayDiffer()
		}
	}
}

// take follows one registration. After an event there are many for one reason, which is logged once; what the SA refuses is
// logged one by one.
func (s *subnet) take(g sa.Registration) {
	var refused sa.Refusal
	switch {
	case g.Held && g.Kind == sa.KindGroup:
		s.regrant(g.Group)
	case g.Held && g.Kind == sa.KindTrap && !s.doubts.since.IsZero():
		s.pathsMayDiffer()
		select {
		case s.relist <- struct{}{}:
		default:
		}
	case g.Held:
	case errors.As(g.Err, &refused):
		s.log.Warn("registration_refused", "kind", string(g.Kind), "name", g.Name, "error", g.Err)
		s.doubt("")
	default:
		s.doubt(whyOf(g.Err))
	}
}

// doubt notes that something may not be registered any more.
func (s *subnet) doubt(why string) {
	if s.doubts.since.IsZero() {
		s.doubts.since = time.Now()
	}
	if why != "" && why != s.doubts.why {
		s.doubts.why = why
		s.log.Warn("subnet_doubtful", "why", why, "registrations", len(s.keep.Registrations()))
		s.pathsMayDiffer()
	}
}

// settleDoubts looks whether all is held again.
func (s *subnet) settleDoubts() {
	if s.doubts.since.IsZero() || len(s.keep.Lost()) > 0 {
		return
	}
	after := time.Since(s.doubts.since).Round(time.Millisecond)
	s.log.Info("subnet_registered", "registrations", len(s.keep.Registrations()), "after", after)
	s.doubts.since, s.doubts.why = time.Time{}, ""
	s.pathsMayDiffer()
}

// whyOf is the reason that many registrations share.
func whyOf(err error) string {
	for _, shared := range []error{sa.ErrUnreachable, sa.ErrTimeout, sa.ErrNoSM, sa.ErrClosed} {
		if errors.Is(err, shared) {
			return shared.Error()
		}
	}
	return err.Error()
}

// regrant has the door follow a group's record, and then management. What the door cannot follow is tried again.
func (s *subnet) regrant(f ib.MCMemberFields) {
	defer s.order(f.MGID)()
	m, there, err := s.renew(f)
	if err != nil {
		s.log.Warn("group_renew", "mgid", f.MGID, "mlid", f.MLID, "error", err)
		s.doubts.unseated[f.MGID] = f
		return
	}
	delete(s.doubts.unseated, f.MGID)
	if !there {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewed.Groups == nil {
		s.renewed.Groups = map[ib.GID]manage.Membership{}
	}
	s.renewed.Groups[f.MGID] = m
}
