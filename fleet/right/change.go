// SPDX-License-Identifier: Apache-2.0

package right

import (
	"context"
	"errors"

	"causeway/fleet/shares"
)

// ErrNothingAssigned is returned where there is no assignment to change yet.
var ErrNothingAssigned = errors.New("right: the fleet has no assignment yet")

// Change proposes what an operator makes of the newest assignment, and does so again when another came between, until ctx is
// done. Any member may be asked, while Run runs; shares move as with any other assignment.
func (m *Member) Change(ctx context.Context, change func(*shares.Assignment) (*shares.Assignment, error)) error {
	for {
		s, err := m.Snapshot(ctx)
		if err != nil {
			return err
		}
		if s.Assignment == nil {
			return ErrNothingAssigned
		}
		next, err := change(s.Assignment)
		if err != nil {
			return err
		}
		if err = m.config.Store.Propose(ctx, s.Epoch, next); !errors.Is(err, ErrEpoch) {
			return err
		}
		select {
		case <-m.config.Clock.After(m.config.interval()): // by then the newer one has come
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
