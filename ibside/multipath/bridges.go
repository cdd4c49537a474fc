// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"slices"

	"causeway/ibside"
)

// Announce implements ibside.Announcer, on all fabrics that have a list.
func (s *state) Announce(ctx context.Context, b ibside.Bridge) error {
	var errs []error
	for _, m := range s.cfg.Members {
		if port, ok := m.Port.(ibside.Announcer); ok {
			errs = append(errs, port.Announce(ctx, b))
		}
	}
	return errors.Join(errs...)
}

// Bridges implements ibside.Announcer: those on all fabrics, without LIDs, because another fabric's node may have them.
func (s *state) Bridges(ctx context.Context) (all []ibside.Bridge, err error) {
	var errs []error
	for _, m := range s.cfg.Members {
		if port, ok := m.Port.(ibside.Announcer); ok {
			some, err := port.Bridges(ctx)
			errs = append(errs, err)
			for _, b := range some {
				b.LID, b.LMC = 0, 0
				if !slices.ContainsFunc(all, func(o ibside.Bridge) bool { return o.GID == b.GID && slices.Equal(o.MACs, b.MACs) }) {
					all = append(all, b)
				}
			}
		}
	}
	return all, errors.Join(errs...)
}

var _ ibside.Announcer = (*Port)(nil)
