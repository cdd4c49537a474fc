// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"causeway/ibside"
)

// Announce implements ibside.Announcer, on all fabrics that have a list.
func (s *state) Announce(ctx context.Context, b ibside.Bridge) error {
	return s.eachAnnouncer(ctx, func(ctx context.Context, _ int, port ibside.Announcer) error { return port.Announce(ctx, b) })
}

// moment is how long the other fabrics have when one has answered: one that is silent keeps a bridge from seeing others by no more, which
// wait three seconds for it (app/bridge/rivals).
const moment = 500 * time.Millisecond

// eachAnnouncer asks all fabrics at once.
func (s *state) eachAnnouncer(ctx context.Context, ask func(ctx context.Context, member int, port ibside.Announcer) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	errs := make([]error, len(s.cfg.Members))
	var asking sync.WaitGroup
	for i, m := range s.cfg.Members {
		if port, ok := m.Port.(ibside.Announcer); ok {
			asking.Go(func() {
				if errs[i] = ask(ctx, i, port); errs[i] == nil {
					time.AfterFunc(moment, end)
				}
			})
		}
	}
	asking.Wait()
	return errors.Join(errs...)
}

// Bridges implements ibside.Announcer: those on all fabrics, without LIDs, because another fabric's node may have them.
func (s *state) Bridges(ctx context.Context) (all []ibside.Bridge, err error) {
	lists := make([][]ibside.Bridge, len(s.cfg.Members))
	err = s.eachAnnouncer(ctx, func(ctx context.Context, i int, port ibside.Announcer) (err error) {
		lists[i], err = port.Bridges(ctx)
		return err
	})
	for _, b := range slices.Concat(lists...) {
		b.LID, b.LMC = 0, 0
		if !slices.ContainsFunc(all, func(o ibside.Bridge) bool { return o.GID == b.GID && slices.Equal(o.MACs, b.MACs) }) {
			all = append(all, b)
		}
	}
	return all, err
}

var _ ibside.Announcer = (*Port)(nil)
