// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"causeway/app/condition"
	"causeway/ibside"
	"causeway/lcore"
	"causeway/lcore/manage"
)

func runStatus(ctx context.Context, c *Call) (Result, error) {
	b, s := c.Env.Bridge, c.Env.Bridge.Status()
	state := worded{"ready", "ready"}
	switch {
	case condition.Drained(b):
		state = worded{"drained, until resume", "drained"}
	case s.Ready && !condition.Ready(b):
		state = worded{"not ready: see below", "faulty"}
	case !s.Ready:
		state = worded{fmt.Sprintf("not ready: waiting for %d joins or paths", s.Waiting), "waiting"}
		if s.Waiting == 1 {
			state.text = "not ready: waiting for 1 join or path"
		}
	}
	name := ""
	if cfg := c.Env.config(); cfg != nil {
		name = cfg.Name
	}
	_, up := b.Ethernet()
	pairs := []Pair{
		{"name", name}, {"state", state}, {"ready", condition.Ready(b)}, {"running for", ageOf(c.Env.Began, time.Now())}, {"ethernet link", upDown(up)},
		{"hosts", s.Hosts}, {"nodes", s.Nodes}, {"learned nodes", s.LearnedNodes}, {"groups", s.Groups}, {"learned groups", s.Learned}, {"proxy QPs", s.ProxyQPs},
	}
	if n := c.injecting(); n > 0 {
		pairs = append(pairs, Pair{"injecting faults", worded{"in " + counted(n, "direction"), n}})
	}
	if x, ok := b.(tentativeEditor); ok {
		if until, is := x.Pending(); is {
			pairs = append(pairs, Pair{"confirm within", Age(max(0, time.Until(until)))})
		}
	}
	total := b.Counters()
	from, to := c.Env.Sampler.span(sampleEvery)
	part := Part{Name: "directions", Columns: columns("direction", "packets/s", "bits/s", "drops/s", "received", "sent", "dropped", "most lost by?")}
	for d := range total.Direction {
		x := &total.Direction[d]
		r := rateOf(&from, &to, d)
		part.Rows = append(part.Rows, []any{lcore.Direction(d), r.Sent, r.Bits, r.Dropped, x.Received, x.Sent, x.Dropped(),
			mostLost(&from, &to, d)})
	}
	parts := []Part{{Pairs: pairs}}
	if lines, values := deviceLosses(b); len(lines) > 0 {
		parts = append(parts, Part{Name: "device_losses", Lines: lines, Value: values})
	}
	for _, x := range []Part{{Name: "faults", Lines: condition.Faults(b)}, {Name: "remarks", Lines: append(condition.Remarks(b), c.Env.Sampler.Dropping()...)}} {
		if len(x.Lines) > 0 {
			parts = append(parts, x)
		}
	}
	if !s.Ready && !s.Drained {
		if lines := manage.Awaited(ctx, b, &s, awaitedMost); len(lines) > 0 {
			parts = append(parts, Part{Name: "awaited", Lines: lines})
		}
	}
	return Result{Parts: append(parts, part)}, nil
}

// mostLost returns the three reasons by which a direction lost most between two readings, with the packets a second; nil: it lost
// nothing.
func mostLost(from, to *reading, d int) any {
	var all []string
	seconds := to.at.Sub(from.at).Seconds()
	for _, x := range condition.Losses(&from.total.Direction[d], &to.total.Direction[d]) {
		if len(all) < 3 && seconds > 0 {
			all = append(all, fmt.Sprintf("%v %v/s", x.Reason, Rate(float64(x.Packets)/seconds)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return strings.Join(all, ", ")
}

// deviceLosses names what the devices have counted of losses, a line for each that has, and an object in JSON.
func deviceLosses(b Target) (lines []string, values object) {
	line := func(who, name string, all []Pair) {
		var counted []string
		lost := object{}
		for _, x := range all {
			if x.Value != uint64(0) {
				counted = append(counted, fmt.Sprint(x.Name, " ", x.Value))
				lost = append(lost, Pair{key(x.Name), x.Value})
			}
		}
		if len(counted) > 0 {
			lines = append(lines, who+" has counted losses: "+strings.Join(counted, ", ")+`. See "show ports".`)
			values = append(values, Pair{name, lost})
		}
	}
	e, _ := b.Ethernet()
	line("The Ethernet port", "ethernet", []Pair{
		{"missed", e.RxMissed}, {"interface dropped", e.RxDropped}, {"receive errors", e.RxErrors}, {"send errors", e.TxErrors},
	})
	device := b.LostByDevice()
	var all []Pair
	for _, c := range ibside.LossCounters() {
		all = append(all, Pair{c.Name, device[c.Name]})
	}
	line("The RDMA device", "rdma", all)
	return lines, values
}

// awaitedMost is how many missing joins and paths "show status" names, so that it fits one screen.
const awaitedMost = 5

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
