// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"causeway/config"
	"causeway/dpdk"
)

func runConfig(_ context.Context, c *Call) (Result, error) {
	cfg := c.Env.config()
	if cfg == nil {
		return Result{}, notAvailable("the configuration")
	}
	part := Part{Name: "config", Columns: columns("where", "key", "value"), Note: "All other keys have their defaults."}
	for _, x := range config.Diff(new(config.Config), cfg) {
		var key any
		if x.Key != "" {
			key = x.Key
		}
		part.Rows = append(part.Rows, []any{x.Where, key, x.New})
	}
	return table(part), nil
}

func runLog(_ context.Context, c *Call) (Result, error) {
	if c.Env.Logs == nil {
		return Result{}, notAvailable("the log")
	}
	n := int(value(c, "lines", uint64(50)))
	part := Part{Name: "log", Lines: c.Env.Logs.Recent(n)}
	if k := c.Env.Logs.Suppressed(); k > 0 {
		part.Note = fmt.Sprintf("%d lines were suppressed, because there were too many of the same event.", k)
	}
	return table(part), nil
}

func runMemory(_ context.Context, c *Call) (Result, error) {
	m := c.Env.Bridge.Memory()
	usage := Part{Name: "usage", Columns: columns("what", "used", "limit", "share")}
	row := func(what string, used, limit int) {
		var share any
		if limit > 0 {
			share = Share(float64(used) / float64(limit))
		}
		usage.Rows = append(usage.Rows, []any{what, used, limit, share})
	}
	row("packets", m.PacketsUsed, m.Packets)
	row("hosts", m.Hosts[0], m.Hosts[1])
	row("nodes", m.Nodes[0], m.Nodes[1])
	row("groups", m.Groups[0], m.Groups[1])
	row("proxy QPs", m.ProxyQPs[0], m.ProxyQPs[1])
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	bytes := Part{Name: "bytes", Pairs: []Pair{
		{"packets", Size(m.PacketBytes)}, {"tables when full", Size(m.TableBytes)},
		{"Go heap", Size(samples[0].Value.Uint64())}, {"Go in all", Size(samples[1].Value.Uint64())},
	}}
	program := Part{Name: "program", Pairs: []Pair{{"goroutines", runtime.NumGoroutine()}}}
	return Result{Parts: []Part{usage, bytes, program}}, nil
}

func runVersion(_ context.Context, c *Call) (Result, error) {
	return table(Part{Pairs: []Pair{
		{"causeway", c.Env.Version}, {"Go", runtime.Version()}, {"DPDK", strings.TrimPrefix(dpdk.Version(), "DPDK ")},
		{"running for", ageOf(c.Env.Began, time.Now())}, {"since", c.Env.Began.Format(time.RFC3339)},
	}}), nil
}

func setLogLevel(_ context.Context, c *Call) (Result, error) {
	if c.Env.Logs == nil {
		return Result{}, notAvailable("the log's level")
	}
	level := c.Value("level")
	if err := c.Env.Logs.SetLevel(level); err != nil {
		return Result{}, err
	}
	c.changed("set log level", "level", level)
	return text("The log shows " + level + " and higher levels."), nil
}

// A reloader can take a new configuration.
type reloader interface {
	Plan(*config.Config) (config.Changes, error)
	Reload(context.Context, *config.Config) (config.Changes, error)
}

func runReload(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(reloader)
	if !ok || c.Env.Load == nil {
		return Result{}, notAvailable("reload")
	}
	cfg, err := c.Env.Load()
	if err != nil {
		return Result{}, err
	}
	if c.Has("check") {
		return checkReload(b, cfg)
	}
	changes, err := b.Reload(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	c.changed("reload", "changes", len(changes))
	return table(changesPart(changes)), nil
}

// checkReload lists all differences. It fails where a reload would, and returns the list then, too.
func checkReload(b reloader, cfg *config.Config) (Result, error) {
	changes, err := b.Plan(cfg)
	if never := len(changes.NeedRestart()); never > 0 {
		return table(changesPart(changes)),
			fmt.Errorf("a reload would be rejected, because %d of %d changes need a restart", never, len(changes))
	}
	if err != nil {
		return Result{}, err
	}
	return table(changesPart(changes)), nil
}

func changesPart(changes config.Changes) Part {
	part := Part{Name: "changes", Columns: columns("where", "what", "detail…", "needs restart"), Empty: "There is no difference."}
	for _, x := range changes {
		part.Rows = append(part.Rows, []any{x.Where, x.What, x.Detail, !x.Live})
	}
	return part
}

// A drainer can leave its groups and nodes to another bridge.
type drainer interface {
	Drain(context.Context) error
	Resume(context.Context) error
}

func runDrain(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(drainer)
	if !ok {
		return Result{}, notAvailable("drain")
	}
	if err := b.Drain(ctx); err != nil {
		return Result{}, err
	}
	c.changed("drain")
	return text("The bridge leaves its groups and services and answers for no node. Packets that still arrive cross. \"resume\" undoes this."), nil
}

func runResume(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(drainer)
	if !ok {
		return Result{}, notAvailable("resume")
	}
	if err := b.Resume(ctx); err != nil {
		return Result{}, err
	}
	c.changed("resume")
	return text("The bridge joins its groups and announces its nodes again."), nil
}

func runHalt(_ context.Context, c *Call) (Result, error) {
	if c.Env.Stop == nil {
		return Result{}, notAvailable("halt")
	}
	c.changed("halt")
	c.Env.Stop()
	return text("The bridge leaves its groups, sends the packets that it has, and ends."), nil
}
