// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// A node is resolving while no path to it is known.
type resolving struct {
	stop   context.CancelFunc
	began  time.Time
	warned *atomic.Bool // once: a node may be off for long
}

// resolve asks for the path to a node, until there is an answer or the node is removed.
func (n *Nodes) resolve(x Node) { n.resolveWarned(x, new(atomic.Bool)) }

func (n *Nodes) resolveWarned(x Node, warned *atomic.Bool) {
	ctx, cancel := context.WithCancel(n.Ask.Running())
	n.resolving[x.GID] = resolving{cancel, time.Now(), warned}
	n.Ask.Ask(ctx, func(asking context.Context) error {
		lid, sl, err := n.Paths.Path(asking, x.GID)
		if err != nil {
			n.logMissing(ctx, &x, warned, err)
			return err
		}
		x.LID, x.SL = lid, sl
		n.Ask.Later(ctx, func() {
			if ctx.Err() == nil {
				n.resolved(x)
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

func (n *Nodes) resolved(x Node) {
	n.endResolving(x.GID)
	if !n.putOrWait(x) {
		return
	}
	n.Log.Info("node_resolved", "node", x.Addrs(), "gid", x.GID, "lid", x.LID, "sl", x.SL)
	n.Changed()
}

func (n *Nodes) endResolving(gid ib.GID) {
	if r, missing := n.resolving[gid]; missing {
		r.stop()
		delete(n.resolving, gid)
	}
}

// Renew asks for all paths again: the subnet may have changed any of them, or a node may have appeared.
func (n *Nodes) Renew(now time.Time) {
	for _, x := range n.nodes {
		switch _, _, known := n.Tables.FindGID(x.GID); {
		case x.LID != 0 || !known:
		case n.asking[x.GID]:
			n.again[x.GID] = true
		default:
			n.resolveAgain(x)
		}
	}
	n.resolveSooner(now)
}

// resolveSooner asks at once for the nodes without a path, whose next try may be ten seconds away. What was asked for
// within the last second is asked for again soon enough.
func (n *Nodes) resolveSooner(now time.Time) {
	for _, x := range n.nodes {
		if r, missing := n.resolving[x.GID]; missing && now.Sub(r.began) >= time.Second {
			n.endResolving(x.GID)
			n.resolveWarned(x, r.warned)
		}
	}
}

// pathTries bounds the requests for one path, some seconds in all: a node may be off for long.
const pathTries = 6

// resolveAgain asks for the path to a node that has one. Meanwhile, and when there is no answer, the node stays where
// it is: at worst its messages are lost.
func (n *Nodes) resolveAgain(x Node) {
	n.asking[x.GID] = true
	tries := 0
	n.Ask.Ask(n.Ask.Running(), func(asking context.Context) error {
		lid, sl, err := n.Paths.Path(asking, x.GID)
		if tries++; err != nil && tries < pathTries {
			return err
		}
		n.Ask.Tell(func() { n.resolvedAgain(x, lid, sl, err) })
		return nil
	})
}

func (n *Nodes) resolvedAgain(x Node, lid ib.LID, sl ib.SL, err error) {
	delete(n.asking, x.GID)
	again := n.again[x.GID]
	delete(n.again, x.GID)
	old, _, _ := n.Tables.FindGID(x.GID)
	now, configured := n.configured(x.GID)
	switch {
	case !configured || now.LID != 0: // changed meanwhile
		return
	case err != nil:
		n.Log.Warn("path_missing", "node", x.Addrs(), "gid", x.GID, "error", err, "note", "it stays where it was")
	case old.LID != lid || old.SL != sl:
		x = now
		x.LID, x.SL = lid, sl
		if err := n.put(x); err != nil {
			n.Log.Error("node_rejected", "error", err)
			return
		}
		n.Log.Info("node_moved", "node", x.Addrs(), "gid", x.GID, "lid", lid, "was", old.LID, "sl", sl)
		n.Changed()
	}
	if again && n.Ask.Running().Err() == nil {
		n.resolveAgain(now)
	}
}
