// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"time"

	"causeway/lcore/manage"
)

// patience is how long a worker may stand still. A worker that sleeps looks at its queues some thousand times a second, but may have
// to wait for its core where others have it, too.
var patience = 2 * time.Second

// health looks at the workers' loop counters until each has moved, and says which has not. No line: all is well.
func health(ctx context.Context, b Bridge) []string {
	first := b.Workers()
	if len(first) == 0 {
		return []string{"the bridge is taken down: it has no workers"}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); ; {
		select {
		case <-ctx.Done():
			return []string{"the question was given up"}
		case <-tick.C:
		}
		now, still := b.Workers(), 0
		for i := range first {
			if i >= len(now) || now[i].Loops == first[i].Loops {
				still++
			}
		}
		if still == 0 {
			return nil
		}
		if time.Now().After(until) {
			return []string{fmt.Sprintf("%d of %d workers have stood still for %v: they are stopped, hang, or get no time on their cores",
				still, len(first), patience)}
		}
	}
}

// mostAwaited is how many groups and nodes are named that are awaited; the rest is a number.
const mostAwaited = 20

// readiness says what is awaited before traffic may come. No line: it may.
func readiness(ctx context.Context, b Bridge, o Options) []string {
	s := b.Status()
	switch {
	case o.draining():
		return []string{"draining: the bridge ends, or leaves everything to another"}
	case s.Ready:
		return nil
	}
	return append([]string{fmt.Sprintf("joins and paths that are not there yet: %d", s.Waiting)}, awaited(ctx, b)...)
}

// awaited names the groups that are not joined and the nodes without a path, as far as management can be asked now.
func awaited(ctx context.Context, b Bridge) (lines []string) {
	ctx, done := context.WithTimeout(ctx, time.Second)
	defer done()
	groups, err := b.ListGroups(ctx, manage.Query{})
	if err != nil {
		return nil
	}
	for _, g := range groups.Entries {
		if g.State != "joined" && !g.Learned {
			lines = append(lines, fmt.Sprintf("group %v, MGID %v: %s", g.IP, g.MGID, g.State))
		}
	}
	nodes, err := b.ListNodes(ctx, manage.Query{})
	if err != nil {
		return lines
	}
	for _, n := range nodes.Entries {
		if !n.Resolved {
			lines = append(lines, fmt.Sprintf("node %s: no path to GID %v", addresses(n), n.GID))
		}
	}
	if rest := len(lines) - mostAwaited; rest > 0 {
		lines = append(lines[:mostAwaited], fmt.Sprintf("and %d more", rest))
	}
	return lines
}

func addresses(n manage.NodeEntry) string {
	switch {
	case !n.IP4.IsValid():
		return n.IP6.String()
	case !n.IP6.IsValid():
		return n.IP4.String()
	}
	return fmt.Sprintf("%v, %v", n.IP4, n.IP6)
}
