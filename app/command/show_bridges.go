// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// runBridges shows the other bridges on the InfiniBand subnets.
func runBridges(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "bridges", Columns: columns("GID", "MAC", "for"),
		Empty: "No other bridge is on the subnet, or the subnet administrator keeps no list (bridges_unknown in the log says so)."}
	for _, b := range c.Env.Bridge.Status().Bridges {
		part.Rows = append(part.Rows, []any{joined(b.GIDs), joined(b.MACs), Age(time.Since(b.Since))})
	}
	return table(part), nil
}

func joined[T any](all []T) string {
	var s []string
	for _, x := range all {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, " ")
}
