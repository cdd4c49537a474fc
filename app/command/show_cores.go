// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"causeway/app/bridge"
)

// coresFor is how long the time that threads use is measured.
const coresFor = 250 * time.Millisecond

func runCores(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(interface{ Cores() []bridge.Core })
	if !ok {
		return Result{}, notAvailable("its threads")
	}
	at := time.Now()
	before := map[string]time.Duration{}
	for _, core := range b.Cores() {
		before[core.Role] = core.Ran
	}
	select {
	case <-time.After(coresFor):
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	part := Part{Name: "cores", Columns: columns("lcore", "role", "threads", "CPUs", "node", "share")}
	cores, seconds := b.Cores(), time.Since(at).Seconds()
	for _, core := range cores {
		var share any
		if core.Threads > 0 {
			share = Share(max(0, core.Ran-before[core.Role]).Seconds() / seconds)
		}
		part.Rows = append(part.Rows, []any{core.Lcore, core.Role, core.Threads, cpusOf(core), core.Node, share})
	}
	return table(part), nil
}

// placesPart shows where memory is.
func placesPart(places []bridge.Place) Part {
	part := Part{Name: "places", Columns: columns("memory", "node", "size", "pages"), Note: "node is the NUMA node; tables have the size of full ones."}
	for _, p := range places {
		part.Rows = append(part.Rows, []any{p.What, p.Node, sizeOrNil(p.Bytes), sizeOrNil(p.Page)})
	}
	return part
}

func sizeOrNil(bytes int) any {
	if bytes == 0 {
		return nil
	}
	return Size(bytes)
}

// cpusOf returns the CPUs of a core's thread, nil for several threads or none.
func cpusOf(c bridge.Core) any {
	if c.CPUs == nil {
		return nil
	}
	return worded{strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.CPUs)), ","), "[]"), c.CPUs}
}
