// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"causeway/lcore/manage"
)

// awaitedMost is how many groups and nodes "show status" names that are awaited: it fits one screen.
const awaitedMost = 5

// awaited names the groups that are not joined and the nodes without a path, as far as management can be asked now.
func awaited(ctx context.Context, b Bridge) []Part {
	var lines []string
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
		return nil
	}
	for _, n := range nodes.Entries {
		if !n.Resolved {
			ip := n.IP4
			if !ip.IsValid() {
				ip = n.IP6
			}
			lines = append(lines, fmt.Sprintf("node %v: no path to GID %v", ip, n.GID))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if rest := len(lines) - awaitedMost; rest > 0 {
		lines = append(lines[:awaitedMost], fmt.Sprintf("and %d more: show groups, show nodes", rest))
	}
	return []Part{{Name: "awaited", Lines: lines}}
}
