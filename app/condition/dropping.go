// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"causeway/lcore"
)

// Meant are the drops that cost nobody a message: copies, what another bridge or fabric carries, and what somebody asked for.
var Meant = []string{"standby_port", "duplicate", "not_mine", "loop_self", "loop_bridge", "not_roce", "injected"}

// A Loss is how many packets were dropped for a reason.
type Loss struct {
	Reason  lcore.Drop
	Packets uint64
}

// Losses returns what a direction dropped between two readings, but for what is meant: the most frequent reason first.
func Losses(was, now *lcore.DirectionCounters) (all []Loss) {
	for _, reason := range lcore.Drops() {
		if n := now.Drops[reason] - was.Drops[reason]; now.Drops[reason] > was.Drops[reason] && !slices.Contains(Meant, reason.String()) {
			all = append(all, Loss{reason, n})
		}
	}
	slices.SortStableFunc(all, func(a, b Loss) int { return cmp.Compare(b.Packets, a.Packets) })
	return all
}

const (
	// reasonsNamed is how many reasons a remark names.
	reasonsNamed = 3
	// fewest is how many packets between two readings say something of a direction.
	fewest = 20
)

// Dropping returns in which directions half of what came between two readings was dropped, or more, and for which reasons.
func Dropping(was, now *lcore.Counters) (lines []string) {
	for d := range now.Direction {
		came := now.Direction[d].Received - was.Direction[d].Received
		losses, lost := Losses(&was.Direction[d], &now.Direction[d]), uint64(0)
		for _, x := range losses {
			lost += x.Packets
		}
		if now.Direction[d].Received < was.Direction[d].Received || came < fewest || lost < came/2 {
			continue
		}
		var why []string
		for _, x := range losses[:min(len(losses), reasonsNamed)] {
			why = append(why, fmt.Sprintf("%v %d%%", x.Reason, min(100, 100*x.Packets/came)))
		}
		lines = append(lines, fmt.Sprintf(`%d%% of what comes %v is dropped: %s; "show drops" says what each means`,
			min(100, 100*lost/came), lcore.Direction(d), strings.Join(why, ", ")))
	}
	return lines
}
