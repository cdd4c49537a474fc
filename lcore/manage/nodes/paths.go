// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/tables"
)

// A question for a path is under way until stop.
type question struct {
	stop  context.CancelFunc
	began time.Time
}

// questions are those under way, by node.
type questions map[ib.GID]question

func (qs questions) has(gid ib.GID) bool {
	_, is := qs[gid]
	return is
}

func (qs questions) end(gid ib.GID) {
	if q, is := qs[gid]; is {
		q.stop()
		delete(qs, gid)
	}
}

// A node is resolving while no path to it is known.
type resolving struct {
	question
	warned *atomic.Bool // once: a node may be off for long
}

// resolve asks for the path to a node, until there is an answer or the node is removed.
func (n *Nodes) resolve(x Node) { n.resolveWarned(x, new(atomic.Bool)) }

func (n *Nodes) resolveWarned(x Node, warned *atomic.Bool) {
	ctx, cancel := context.WithCancel(n.Ask.Running())
	n.resolving[x.GID] = resolving{question{cancel, time.Now()}, warned}
	n.Ask.Ask(ctx, func(asking context.Context) error {
		after := n.event.Load()
		path, err := n.Paths.Path(asking, x.GID, x.PKey)
		if err != nil {
			n.logMissing(ctx, &x, warned, err)
			return err
		}
		n.Ask.Later(ctx, func() {
			if ctx.Err() == nil {
				n.resolved(placed{Node: x, path: path}, after)
			}
		})
		return nil
	})
}

func (n *Nodes) logMissing(ctx context.Context, x *Node, warned *atomic.Bool, err error) {
	level := slog.LevelDebug
	if ctx.Err() == nil && warned.CompareAndSwap(false, true) {
		level = slog.LevelWarn
	}
	n.Log.Log(ctx, level, "path_missing", "node", x.Addrs(), "gid", x.GID, "error", err)
}

// resolved has the first answer about a node, to a question that was asked after an event.
func (n *Nodes) resolved(x placed, after int64) {
	n.endResolving(x.GID)
	again := after < n.last[x.GID]
	if again {
		x.lids = tables.LIDsStale
	}
	if n.putOrWait(x) {
		n.sayResolved(&x)
	}
	n.doubt(x.GID, x.path.LID, x.path.Unconfirmed)
	if again {
		n.resolveAgain(x.Node)
	}
}

func (n *Nodes) sayResolved(x *placed) {
	n.Log.Info("node_resolved", "node", x.Addrs(), "gid", x.GID, "lid", x.path.LID, "sl", x.path.SL)
	n.Changed()
}

func (n *Nodes) endResolving(gid ib.GID) {
	if r, missing := n.resolving[gid]; missing {
		r.stop()
		delete(n.resolving, gid)
	}
}

// Renew follows what the subnet has changed, or may have.
func (n *Nodes) Renew(now time.Time, r ibside.Renewals) {
	if r.Paths {
		n.event.Add(1)
	}
	ports := map[ib.GID]bool{}
	for _, gid := range r.Ports {
		ports[gid] = true
	}
	for _, x := range n.byGID {
		if x.LID == 0 && (r.LIDs || ports[x.GID]) {
			n.stale(x.GID)
		}
	}
	if r.Paths {
		n.renewPaths(now)
	}
}

// stale has a node's LIDs name nobody until an answer comes to a question that is asked from now on. What has a GRH
// goes on in both directions.
func (n *Nodes) stale(gid ib.GID) {
	if known, _, found := n.Tables.FindGID(gid); found && known.LIDs == tables.LIDsKnown {
		n.Tables.MarkLIDs(gid, tables.LIDsStale)
	}
	if x, waits := n.waiting[gid]; waits && x.lids == tables.LIDsKnown {
		x.lids = tables.LIDsStale
		n.waiting[gid] = x
	}
	n.last[gid] = n.event.Load()
}

// renewPaths asks for all paths again: the subnet may have changed any of them, or a node may have appeared. There is
// one question a node under way, and at most one more is asked after it.
func (n *Nodes) renewPaths(now time.Time) {
	for _, x := range n.byGID {
		_, _, known := n.Tables.FindGID(x.GID)
		_, waits := n.waiting[x.GID]
		switch {
		case x.LID != 0 || !known && !waits:
		case n.asking.has(x.GID):
			n.last[x.GID] = n.event.Load()
		default:
			n.resolveAgain(x)
		}
	}
	n.resolveSooner(now)
}

// resolveSooner asks at once for the nodes without a path, whose next try may be ten seconds away, and for those that the subnet
// had no more. What was asked for within the last second is asked for again soon enough.
func (n *Nodes) resolveSooner(now time.Time) {
	for _, x := range n.byGID {
		if r, missing := n.resolving[x.GID]; missing && now.Sub(r.began) >= time.Second {
			n.endResolving(x.GID)
			n.resolveWarned(x, r.warned)
		}
		if q, asking := n.asking[x.GID]; asking && n.lost[x.GID] && now.Sub(q.began) >= time.Second {
			n.asking.end(x.GID)
			n.resolveAgain(x)
		}
	}
}

// pathTries bounds the requests for one path, some seconds in all: a node may be off for long.
const pathTries = 6

// resolveAgain asks for the path to a node that has one. Meanwhile, and when there is no answer, the node stays where
// it is: at worst its messages are lost.
func (n *Nodes) resolveAgain(x Node) { n.resolveIn(x, pathTries) }

// resolveIn is resolveAgain with so many requests at most.
func (n *Nodes) resolveIn(x Node, most int) {
	n.asking.end(x.GID)
	ctx, cancel := context.WithCancel(n.Ask.Running())
	n.asking[x.GID] = question{cancel, time.Now()}
	tries := 0
	n.Ask.Ask(ctx, func(asking context.Context) error {
		after := n.event.Load()
		path, err := n.Paths.Path(asking, x.GID, x.PKey)
		if errors.Is(err, ibside.ErrNoPath) && tries == 0 {
			n.Ask.Later(ctx, func() {
				if ctx.Err() == nil {
					n.Tables.MarkLIDs(x.GID, tables.LIDsLost)
					n.lost[x.GID] = true
				}
			})
		}
		if tries++; err != nil && tries < most {
			return err
		}
		n.Ask.Later(ctx, func() {
			if ctx.Err() == nil {
				n.resolvedAgain(x, path, after, err)
			}
		})
		return nil
	})
}

func (n *Nodes) resolvedAgain(x Node, path ibside.Path, after int64, err error) {
	n.asking.end(x.GID)
	again := after < n.last[x.GID]
	now, known := n.Find(x.GID)
	switch {
	case !known || now.LID != 0: // changed meanwhile
		return
	case err != nil:
		level := slog.LevelDebug
		if _, doubted := n.doubts[x.GID]; !doubted {
			level = slog.LevelWarn
		}
		n.Log.Log(n.Ask.Running(), level, "path_missing", "node", x.Addrs(), "gid", x.GID, "error", err,
			"note", "it stays where it was")
		n.doubt(x.GID, 0, true)
	default:
		delete(n.lost, x.GID)
		n.follow(placed{Node: now, path: path}, again)
		n.doubt(x.GID, path.LID, path.Unconfirmed)
	}
	if again {
		n.resolveAgain(now)
	}
}

// follow puts a node where the subnet says that it is now. An answer to a question that was asked before the last event
// does not say whose LIDs are stale.
func (n *Nodes) follow(x placed, asksAgain bool) {
	old, _, found := n.Tables.FindGID(x.GID)
	waits, waiting := n.waiting[x.GID]
	if asksAgain && (old.LIDs != tables.LIDsKnown || waiting && waits.lids != tables.LIDsKnown) {
		x.lids = tables.LIDsStale
	}
	to := n.entry(x)
	if old.LIDs = to.LIDs; old == to {
		delete(n.waiting, x.GID) // with a path that was told in between
		n.Tables.MarkLIDs(x.GID, x.lids)
		return
	}
	if !n.putOrWait(x) {
		return
	}
	if !found {
		n.sayResolved(&x)
		return
	}
	n.Log.Info("node_moved", "node", x.Addrs(), "gid", x.GID, "lid", to.LID, "was", old.LID, "lmc", to.LMC, "sl", to.SL,
		"mtu", to.MTU, "rate", to.Rate.Mbps(), "hop_limit", to.HopLimit)
	n.Changed()
}
