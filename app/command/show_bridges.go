// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/app/bridge/rivals"
)

// runBridges shows the other bridges on the InfiniBand subnets.
func runBridges(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "bridges", Columns: columns("GID", "MAC", "for", "name?", "fleet?", "is?", "common?"),
		Empty: "No other bridge is on the subnet, or the subnet administrator keeps no list (bridges_unknown in the log says so)."}
	var others []rivals.Other
	if x, ok := c.Env.Bridge.(interface{ Rivals() []rivals.Other }); ok {
		others = x.Rivals()
	}
	for _, b := range c.Env.Bridge.Status().Bridges {
		row := []any{joined(b.GIDs), joined(b.MACs), Age(time.Since(b.Since)), nil, nil, nil, nil}
		if i := slices.IndexFunc(others, func(o rivals.Other) bool { return o.Instance == b.Instance }); i >= 0 {
			row = append(row[:3], words(others[i].Name), words(others[i].Fleet), isOf(&others[i]), words(strings.Join(others[i].Overlap, ", ")))
		}
		part.Rows = append(part.Rows, row)
	}
	return table(part), nil
}

// isOf says what a bridge between the same fabrics is to this one.
func isOf(o *rivals.Other) string {
	switch {
	case o.Beside && len(o.Overlap) == 0:
		return "beside"
	case o.Carries:
		return "carries"
	}
	return "carries nothing"
}

// words are what another bridge says; nil: nothing.
func words(s string) any {
	if s == "" {
		return nil
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

func joined[T any](all []T) string {
	var s []string
	for _, x := range all {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, " ")
}
