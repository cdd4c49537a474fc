// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

// baseline is the counters at the last "clear counters".
type baseline struct {
	at      time.Time
	total   lcore.Counters
	workers []lcore.Counters
}

// baseline returns the counters that are subtracted from those shown; zero without a "clear counters".
func (e *Env) baseline() baseline {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.base == nil {
		return baseline{}
	}
	return *e.base
}

// since says when the counters were cleared; "" when they were not.
func (b *baseline) since() string {
	if b.at.IsZero() {
		return ""
	}
	return "Counters were cleared at " + b.at.Format("15:04:05") + "."
}

// increase returns the difference of two readings of a counter that may have been reset in between.
func increase(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// Rates are packets a second of one direction, and Bits of the payload that was sent.
type Rates struct{ Received, Sent, Bits, Dropped Rate }

// rateOf returns the rates of a direction between two readings.
func rateOf(from, to *reading, d int) Rates {
	return counterRate(&from.total, &to.total, d, to.at.Sub(from.at).Seconds())
}

func counterRate(was, now *lcore.Counters, d int, seconds float64) Rates {
	a, b := &was.Direction[d], &now.Direction[d]
	return Rates{
		Received: perSecond(b.Received, a.Received, seconds), Sent: perSecond(b.Sent, a.Sent, seconds),
		Bits: 8 * perSecond(b.SentBytes, a.SentBytes, seconds), Dropped: perSecond(b.Dropped(), a.Dropped(), seconds),
	}
}

func runWorkers(_ context.Context, c *Call) (Result, error) {
	base := c.Env.baseline()
	part := Part{Name: "workers", Columns: columns("worker", "CPU", "busy", "to IB/s", "to RoCE/s", "to IB", "to RoCE", "dropped", "handoffs"),
		Empty: "The workers have ended.", Note: notes(idleNote(c.Env.Bridge), base.since())}
	from, to := c.Env.Sampler.span(sampleEvery)
	seconds := to.at.Sub(from.at).Seconds()
	cpus := c.Env.Bridge.WorkerCPUs()
	for i, w := range c.Env.Bridge.Workers() {
		if i < len(base.workers) {
			subtract(&w, &base.workers[i])
		}
		var busy any
		var rates [2]Rates
		if i < len(from.workers) && i < len(to.workers) {
			a, b := &from.workers[i], &to.workers[i]
			if n := increase(b.Loops, a.Loops); n > 0 {
				busy = Share(float64(increase(b.Busy, a.Busy)) / float64(n))
			}
			for d := range rates {
				rates[d] = counterRate(a, b, d, seconds)
			}
		}
		var cpu any
		if i < len(cpus) {
			cpu = cpus[i]
		}
		x := &w.Direction
		part.Rows = append(part.Rows, []any{i, cpu, busy, rates[0].Sent, rates[1].Sent, x[0].Sent, x[1].Sent,
			x[0].Dropped() + x[1].Dropped(), x[0].Handoffs + x[1].Handoffs})
	}
	return table(part), nil
}

// idleNote says what workers do that have nothing to do, where the target knows.
func idleNote(b Target) string {
	idle, ok := b.(interface{ Idle() config.Idle })
	if !ok {
		return ""
	}
	return map[config.Idle]string{
		config.IdlePoll:      "Idle workers poll on.",
		config.IdleSleep:     "Idle workers sleep for some microseconds at a time.",
		config.IdleInterrupt: "Idle workers sleep until a port wakes them.",
	}[idle.Idle()]
}

// notes joins notes that are not empty.
func notes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(n string) bool { return n == "" }), " ")
}

// subtract subtracts an earlier reading from the counters that "show workers" shows.
func subtract(c, before *lcore.Counters) {
	for d := range c.Direction {
		x, y := &c.Direction[d], &before.Direction[d]
		x.Sent, x.Handoffs = increase(x.Sent, y.Sent), increase(x.Handoffs, y.Handoffs)
		drops := map[lcore.Drop]uint64{}
		for reason, n := range x.Drops {
			drops[reason] = increase(n, y.Drops[reason])
		}
		x.Drops = drops
	}
}

// gidsShown is how many GIDs of a port are shown: it may have one for each host.
const gidsShown = 8

func runPorts(_ context.Context, c *Call) (Result, error) {
	e, i := c.Env.Bridge.Ports()
	s, up := c.Env.Bridge.Ethernet()
	from, to := c.Env.Sampler.span(sampleEvery)
	seconds := to.at.Sub(from.at).Seconds()
	rx, tx := perSecond(to.port.RxPackets, from.port.RxPackets, seconds), perSecond(to.port.TxPackets, from.port.TxPackets, seconds)
	ethernet := Part{Name: "ethernet", Note: "missed is DPDK's rx_missed (imissed), or what the kernel dropped before the port: the workers were too slow. interface dropped is what the kernel's interface lost before that. no mbuf is DPDK's rx_nombuf: [workers] mbufs is too low.", Pairs: []Pair{
		{"port", e.Name}, {"link", upDown(up)}, {"link down", string(c.Env.Bridge.Link().Reason)}, {"MAC", e.MAC}, {"MTU", e.MTU},
		{"received frames", s.RxPackets}, {"received bytes", s.RxBytes}, {"received/s", rx},
		{"sent frames", s.TxPackets}, {"sent bytes", s.TxBytes}, {"sent/s", tx},
		{"missed", missed(&s)}, {"interface dropped", s.RxDropped}, {"receive errors", s.RxErrors}, {"no mbuf", s.RxNoMbuf}, {"send errors", s.TxErrors},
	}}
	layer := "InfiniBand"
	if i.Ethernet {
		layer = "Ethernet"
	}
	infiniband := Part{Name: "infiniband", Note: "direct: workers use an mlx5 HCA's queues themselves ([ib] direct).", Pairs: []Pair{{"port", i.Name}, {"link layer", layer}, {"LID", i.LID}, {"MTU", i.MTU}, {"direct", i.Direct}}}
	for n, g := range i.GIDs {
		if n == gidsShown {
			infiniband.Pairs = append(infiniband.Pairs, Pair{"more GIDs", len(i.GIDs) - n})
			break
		}
		infiniband.Pairs = append(infiniband.Pairs, Pair{fmt.Sprintf("GID %d", n), g})
	}
	for d, lost := range c.Env.Bridge.Lost() {
		for _, reason := range slices.Sorted(maps.Keys(lost)) {
			infiniband.Pairs = append(infiniband.Pairs, Pair{fmt.Sprintf("lost %v %s", lcore.Direction(d), reason), lost[reason]})
		}
	}
	device := c.Env.Bridge.LostByDevice()
	for _, name := range slices.Sorted(maps.Keys(device)) {
		infiniband.Pairs = append(infiniband.Pairs, Pair{"device " + name, device[name]})
	}
	parts := []Part{ethernet, infiniband}
	if part, several := ethernetPart(c.Env.Bridge); several {
		parts = append(parts, part)
	}
	if part, several := fabricsPart(c.Env); several {
		parts = append(parts, part)
	}
	return Result{Parts: parts}, nil
}

// missed returns how many frames were lost before the port received them, if that is known.
func missed(s *dpdk.Stats) any {
	if s.RxMissedUnknown {
		return notKnown{}
	}
	return s.RxMissed
}

func runDrops(_ context.Context, c *Call) (Result, error) {
	base, now := c.Env.baseline(), c.Env.Bridge.Counters()
	from, to := c.Env.Sampler.span(sampleEvery)
	seconds := to.at.Sub(from.at).Seconds()
	part := Part{Name: "drops", Columns: columns("reason", "to IB", "to RoCE", "to IB/s", "to RoCE/s", "meaning…"),
		Empty: "Nothing was dropped.", Note: base.since()}
	for _, reason := range lcore.Drops() {
		var n [2]uint64
		var r [2]Rate
		for d := range n {
			n[d] = increase(now.Direction[d].Drops[reason], base.total.Direction[d].Drops[reason])
			r[d] = perSecond(to.total.Direction[d].Drops[reason], from.total.Direction[d].Drops[reason], seconds)
		}
		if n[0]+n[1] > 0 || c.Has("all") {
			part.Rows = append(part.Rows, []any{reason, n[0], n[1], r[0], r[1], reason.Sentence()})
		}
	}
	slices.SortStableFunc(part.Rows, func(a, b []any) int { // what grows now comes first
		return cmp.Compare(b[3].(Rate)+b[4].(Rate), a[3].(Rate)+a[4].(Rate))
	})
	return table(part), nil
}

func runRates(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "rates", Columns: columns("direction", "over", "received/s", "sent/s", "bits/s", "dropped/s")}
	for d := range 2 {
		for _, back := range []time.Duration{sampleEvery, (samplesKept - 1) * sampleEvery} {
			from, to := c.Env.Sampler.span(back)
			r := rateOf(&from, &to, d)
			part.Rows = append(part.Rows, []any{lcore.Direction(d), to.at.Sub(from.at).Round(100 * time.Millisecond), r.Received, r.Sent, r.Bits, r.Dropped})
		}
	}
	return table(part), nil
}

func runLatency(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(interface{ Latency() [][2]lcore.Latency })
	if !ok {
		return Result{}, notAvailable("latency")
	}
	part := Part{Name: "latency", Columns: columns("direction", "worker", "packets", "mean", "p50", "p90", "p99", "p99.9", "max")}
	var sum [2]lcore.Latency
	all := b.Latency()
	row := func(d int, worker any, l *lcore.Latency) {
		if l.Count() == 0 {
			part.Rows = append(part.Rows, []any{lcore.Direction(d), worker, 0, nil, nil, nil, nil, nil, nil})
			return
		}
		mean := l.Sum() / time.Duration(l.Count())
		part.Rows = append(part.Rows, []any{lcore.Direction(d), worker, l.Count(), mean, l.Quantile(0.5), l.Quantile(0.9), l.Quantile(0.99),
			l.Quantile(0.999), l.Max()})
	}
	for d := range sum {
		for w := range all {
			sum[d].Add(&all[w][d])
		}
		row(d, worded{"all", nil}, &sum[d])
		for w := range all {
			if len(all) > 1 {
				row(d, w, &all[w][d])
			}
		}
	}
	part.Note = fmt.Sprintf("Workers measure one of %d bursts.", lcore.LatencyEvery)
	return table(part), nil
}

// framesOf says which frames a flow rule takes.
var framesOf = map[dpdk.Match]string{
	dpdk.MatchRoCEv2IPv4: "RoCEv2 over IPv4", dpdk.MatchRoCEv2IPv6: "RoCEv2 over IPv6", dpdk.MatchRoCEv1: "RoCEv1", dpdk.MatchARP: "ARP",
	dpdk.MatchIGMP: "IGMP", dpdk.MatchMAC: "of a MAC address", dpdk.MatchIP: "of an IP address", dpdk.MatchUDP: "UDP of a group",
}

func runFlows(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "flows", Columns: columns("rule", "frames", "queues", "spread", "VLAN"),
		Empty: "The bridge does not share the port: it receives all frames, and needs no rules."}
	for i, r := range c.Env.Bridge.Rules() {
		queues := make([]int, len(r.Queues))
		for n, q := range r.Queues {
			queues[n] = int(q)
		}
		part.Rows = append(part.Rows, []any{i + 1, framesOf[r.Match], queues, r.RSS, vlan(r.VLAN)})
	}
	return table(part), nil
}

// An injector injects faults.
type injector interface {
	Inject(lcore.Direction, lcore.Injection, time.Duration) error
	Injections() [2]lcore.Injection
	InjectionsEnd() [2]time.Time
}

// injecting returns the number of directions into which faults are injected.
func (c *Call) injecting() (n int) {
	if b, ok := c.Env.Bridge.(injector); ok {
		for _, i := range b.Injections() {
			if i != (lcore.Injection{}) {
				n++
			}
		}
	}
	return n
}

func runInjections(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(injector)
	if !ok {
		return Result{}, notAvailable("injection")
	}
	part := Part{Name: "injection", Columns: columns("direction", "drop", "duplicate", "reorder", "delayed", "delay", "seed", "for")}
	ends := b.InjectionsEnd()
	for d, i := range b.Injections() {
		part.Rows = append(part.Rows, []any{lcore.Direction(d), Share(i.Drop), Share(i.Duplicate), Share(i.Reorder), Share(i.DelayShare), i.Delay, i.Seed,
			max(time.Until(ends[d]).Round(time.Second), 0)})
	}
	return table(part), nil
}
