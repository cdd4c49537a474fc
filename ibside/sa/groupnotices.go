// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"log/slog"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

const (
	subscribeTimeout = 5 * time.Second
	subscribeRetry   = 2 * time.Second
	// relistAfter is the time from a new SM's confirmation of the subscriptions until its groups are listed: the
	// members of groups register again, too, and groups that are created meanwhile come as notices.
	relistAfter = 10 * time.Second
)

// groupNotices reports which groups exist on the subnet: first from the SA's list, and then from its traps.
type groupNotices struct {
	client    *Client
	registrar *Registrar
	log       *slog.Logger
	relist    chan struct{} // gets a value when the subscriptions are new, or notices were dropped
	out       chan ibside.Notice
	known     map[ib.GID]bool // only listen uses it
	dropped   uint64          // notices, by then; the same
}

func newGroupNotices(c *Client, r *Registrar, log *slog.Logger) *groupNotices {
	return &groupNotices{
		client: c, registrar: r, log: log, relist: make(chan struct{}, 1),
		out: make(chan ibside.Notice), known: map[ib.GID]bool{},
	}
}

// Notices implements ibside.Notifier.
func (n *groupNotices) Notices() <-chan ibside.Notice { return n.out }

// relistSoon makes listen list the groups again, after relistAfter.
func (n *groupNotices) relistSoon() {
	select {
	case n.relist <- struct{}{}:
	default:
	}
}

// listen subscribes to notices of groups and ports, and reports which groups exist.
func (n *groupNotices) listen(ctx context.Context) {
	for _, trap := range []uint16{ib.TrapGroupCreated, ib.TrapGroupDeleted, ib.TrapGIDInService, ib.TrapGIDOutOfService} {
		n.subscribe(ctx, trap)
	}
	n.list(ctx)
	var list <-chan time.Time
	for {
		select {
		case x := <-n.client.Notices():
			n.received(ctx, x)
			if dropped := n.client.Stats().NoticesDropped; dropped != n.dropped {
				n.dropped = dropped
				n.relistSoon()
			}
		case <-n.relist:
			list = time.After(relistAfter)
		case <-list:
			list = nil
			n.list(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// subscribe tries until it succeeds; from then on the registrar keeps the subscription.
func (n *groupNotices) subscribe(ctx context.Context, trap uint16) {
	for logged := false; ctx.Err() == nil; {
		asking, cancel := context.WithTimeout(ctx, subscribeTimeout)
		err := n.registrar.Subscribe(asking, trap)
		cancel()
		if err == nil {
			return
		}
		if !logged {
			n.log.Warn("not_subscribed", "trap", trap, "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(subscribeRetry):
		}
	}
}

func (n *groupNotices) received(ctx context.Context, x ib.NoticeFields) {
	switch x.Trap {
	case ib.TrapGroupCreated:
		n.send(ctx, x.GID(), true)
	case ib.TrapGroupDeleted:
		n.send(ctx, x.GID(), false)
	}
}

// list sends a notice for each new group, and for each that has ended.
func (n *groupNotices) list(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	all, err := n.client.Groups(asking, 0, ib.MCMemberFields{})
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("groups_unlisted", "error", err, "note", "groups that are there already are learned by other ways only")
		}
		return
	}
	exists := map[ib.GID]bool{}
	for _, f := range all {
		exists[f.MGID] = true
		if !n.known[f.MGID] {
			n.send(ctx, f.MGID, true)
		}
	}
	for mgid := range n.known {
		if !exists[mgid] {
			n.send(ctx, mgid, false)
		}
	}
}

// send waits until management takes the notice.
func (n *groupNotices) send(ctx context.Context, mgid ib.GID, exists bool) {
	if exists {
		n.known[mgid] = true
	} else {
		delete(n.known, mgid)
	}
	select {
	case n.out <- ibside.Notice{MGID: mgid, Deleted: !exists}:
	case <-ctx.Done():
	}
}
