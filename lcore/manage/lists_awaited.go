// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// A Lister lists groups and nodes: a Loop, or what wraps one.
type Lister interface {
	ListGroups(ctx context.Context, q Query) (List[GroupEntry], error)
	ListNodes(ctx context.Context, q Query) (List[NodeEntry], error)
}

// Awaited names, a line each, the P_Keys that the port's table lacks, the groups that are not joined and the nodes
// without a path, as far as management lists them within a second. Of more than most, the last line says how many.
func Awaited(ctx context.Context, l Lister, s *Status, most int) (lines []string) {
	for _, k := range s.Missing {
		lines = append(lines, fmt.Sprintf("P_Key %v: not in the InfiniBand port's table, which the subnet manager fills", k))
	}
	ctx, done := context.WithTimeout(ctx, time.Second)
	defer done()
	groups, err := l.ListGroups(ctx, Query{})
	if err != nil {
		return lines
	}
	for _, g := range groups.Entries {
		if g.State != "joined" && !g.Learned {
			lines = append(lines, fmt.Sprintf("group %v, MGID %v: %s", g.IP, g.MGID, g.State))
		}
	}
	nodes, err := l.ListNodes(ctx, Query{})
	if err != nil {
		return lines
	}
	for _, n := range nodes.Entries {
		if !n.Resolved {
			lines = append(lines, fmt.Sprintf("node %s: no path to GID %v", n.addresses(), n.GID))
		}
	}
	if rest := len(lines) - most; rest > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more", rest))
	}
	return lines
}

func (n *NodeEntry) addresses() string {
	var all []string
	for _, ip := range []netip.Addr{n.IP4, n.IP6} {
		if ip.IsValid() {
			all = append(all, ip.String())
		}
	}
	return strings.Join(all, ", ")
}
