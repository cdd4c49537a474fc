// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"

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

// resolve asks for the path to one node, until there is an answer or the node is no more.
func (l *Loop) resolve(ctx context.Context, n Node) {
	ctx, cancel := context.WithCancel(ctx)
	l.resolving[n.GID] = cancel
	l.waiting++
	l.ask(ctx, func(asking context.Context) error {
		lid, sl, err := l.door.Path(asking, n.GID)
		if err != nil {
			l.log.Warn("path_missing", "node", n.addrs(), "gid", n.GID, "error", err)
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

func (l *Loop) resolved(n Node) {
	l.endResolving(n.GID)
	if !l.putOrRetry(n) {
		return
	}
	l.log.Info("node_resolved", "node", n.addrs(), "gid", n.GID, "lid", n.LID, "sl", n.SL)
	l.publish()
}
