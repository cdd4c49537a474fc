// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"causeway/tables"
)

// putStatic fills the tables with what configuration says.
func (l *Loop) putStatic() error {
	for _, h := range l.cfg.Hosts {
		if _, err := l.tables.PutHost(h); err != nil {
			return fmt.Errorf("manage: static host %v: %w", h.IP, err)
		}
	}
	for _, n := range l.cfg.Nodes {
		// From now on the node's addresses are IB's, whoever claims them on Ethernet.
		for _, ip := range n.addrs() {
			l.nodes[ip] = true
		}
		if n.LID == 0 {
			continue
		}
		if err := l.putNode(n); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loop) putNode(n Node) error {
	_, err := l.tables.PutNode(tables.Node{IP4: n.IP4, IP6: n.IP6, GID: n.GID, LID: n.LID, SL: n.SL, GRH: n.GRH, Bridge: n.Bridge})
	if err != nil {
		return fmt.Errorf("manage: node %v: %w", n.addrs(), err)
	}
	return nil
}

// resolveNodes asks the subnet administrator for the paths to nodes whose LID is not configured.
func (l *Loop) resolveNodes(ctx context.Context) {
	for _, n := range l.cfg.Nodes {
		if n.LID == 0 {
			l.resolve(ctx, n)
		}
	}
}

// A node is resolving while there is no path to it.
type resolving struct {
	stop   context.CancelFunc
	began  time.Time
	warned *atomic.Bool // once: who waits for a node that is off need not be told each ten seconds
}

// resolve asks for the path to one node, until there is an answer or the node is no more.
func (l *Loop) resolve(ctx context.Context, n Node) { l.resolveBy(ctx, n, new(atomic.Bool)) }

func (l *Loop) resolveBy(ctx context.Context, n Node, warned *atomic.Bool) {
	ctx, cancel := context.WithCancel(ctx)
	l.resolving[n.GID] = resolving{cancel, time.Now(), warned}
	l.waiting++
	l.ask(ctx, func(asking context.Context) error {
		lid, sl, err := l.door.Path(asking, n.GID)
		if err != nil {
			l.logMissing(ctx, n, warned, err)
			return err
		}
		n.LID, n.SL = lid, sl
		l.work.Later(ctx, func() {
			if ctx.Err() == nil {
				l.resolved(n)
			}
		})
		return nil
	})
}

func (l *Loop) logMissing(ctx context.Context, n Node, warned *atomic.Bool, err error) {
	level := slog.LevelDebug
	if ctx.Err() == nil && warned.CompareAndSwap(false, true) {
		level = slog.LevelWarn
	}
	l.log.Log(ctx, level, "path_missing", "node", n.addrs(), "gid", n.GID, "error", err)
}

// hurry asks at once for the nodes that there is no path to, which otherwise takes up to ten seconds: somebody has come.
// Who has only just been asked for is asked for again soon enough.
func (l *Loop) hurry(now time.Time) {
	for _, n := range l.cfg.Nodes {
		if of, missing := l.resolving[n.GID]; missing && now.Sub(of.began) >= time.Second {
			l.endResolving(n.GID)
			l.resolveBy(l.running, n, of.warned)
		}
	}
}

func (l *Loop) resolved(n Node) {
	l.endResolving(n.GID)
	if !l.putOrRetry(n) {
		return
	}
	l.log.Info("node_resolved", "node", n.addrs(), "gid", n.GID, "lid", n.LID, "sl", n.SL)
	l.publish()
}
