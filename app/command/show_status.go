// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"causeway/ibside"
	"causeway/lcore"
	"causeway/lcore/manage"
)

func runStatus(ctx context.Context, c *Call) (Result, error) {
	b, s := c.Env.Bridge, c.Env.Bridge.Status()
	state := "ready"
	switch {
	case s.Drained:
		state = "drained, until resume"
	case !s.Ready:
		state = fmt.Sprintf("not ready: waiting for %d joins or paths", s.Waiting)
		if s.Waiting == 1 {
			state = "not ready: waiting for 1 join or path"
		}
	}
	name := ""
	if cfg := c.Env.config(); cfg != nil {
		name = cfg.Name
	}
	_, up := b.Ethernet()
	pairs := []Pair{
		{"name", name}, {"state", state}, {"ready", s.Ready}, {"running for", ageOf(c.Env.Began, time.Now())}, {"ethernet link", upDown(up)},
		{"hosts", s.Hosts}, {"nodes", s.Nodes}, {"learned nodes", s.LearnedNodes}, {"groups", s.Groups}, {"learned groups", s.Learned}, {"proxy QPs", s.ProxyQPs},
	}
	if n := c.injecting(); n > 0 {
		pairs = append(pairs, Pair{"injecting faults", "in " + counted(n, "direction")})
	}
	total := b.Counters()
	from, to := c.Env.Sampler.span(sampleEvery)
	part := Part{Name: "directions", Columns: columns("direction", "packets/s", "bits/s", "drops/s", "received", "sent", "dropped")}
	for d := range total.Direction {
		x := &total.Direction[d]
		r := rateOf(&from, &to, d)
		part.Rows = append(part.Rows, []any{lcore.Direction(d), r.sent, r.bits, r.dropped, x.Received, x.Sent, x.Dropped()})
	}
	parts := []Part{{Pairs: pairs}}
	if lines := deviceLosses(b); len(lines) > 0 {
		parts = append(parts, Part{Name: "device_losses", Lines: lines})
	}
	if !s.Ready && !s.Drained {
		if lines := manage.Awaited(ctx, b, &s, awaitedMost); len(lines) > 0 {
			parts = append(parts, Part{Name: "awaited", Lines: lines})
		}
	}
	return Result{Parts: append(parts, part)}, nil
}

// deviceLosses names what the devices have counted of losses, a line for each that has.
func deviceLosses(b Target) (lines []string) {
	line := func(who string, counted []string) {
		if len(counted) > 0 {
			lines = append(lines, who+" has counted losses: "+strings.Join(counted, ", ")+`. See "show ports".`)
		}
	}
	add := func(to []string, name string, n uint64) []string {
		if n == 0 {
			return to
		}
		return append(to, fmt.Sprintf("%s %d", name, n))
	}
	e, _ := b.Ethernet()
	var counted []string
	counted = add(counted, "missed", e.RxMissed)
	counted = add(counted, "receive errors", e.RxErrors)
	line("The Ethernet port", add(counted, "send errors", e.TxErrors))
	device := b.LostByDevice()
	counted = nil
	for _, c := range ibside.LossCounters() {
		counted = add(counted, c.Name, device[c.Name])
	}
	line("The RDMA device", counted)
	return lines
}

// awaitedMost is how many missing joins and paths "show status" names, so that it fits one screen.
const awaitedMost = 5

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
