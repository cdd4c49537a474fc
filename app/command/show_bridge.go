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
		return Result{}, noAnswer("the configuration")
	}
	part := Part{Name: "config", Columns: columns("where", "key", "value"), Note: "Keys that are not here have their defaults."}
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
		return Result{}, noAnswer("the log")
	}
	n := int(value(c, "lines", uint64(50)))
	part := Part{Name: "log", Lines: c.Env.Logs.Recent(n)}
	if k := c.Env.Logs.Suppressed(); k > 0 {
		part.Note = fmt.Sprintf("%d lines were left out of the log, because there were too many like them.", k)
	}
	return table(part), nil
}

func runMemory(_ context.Context, c *Call) (Result, error) {
	m := c.Env.Bridge.Memory()
	rooms := Part{Name: "room", Columns: columns("what", "taken", "room", "share")}
	row := func(what string, taken, room int) {
		var share any
		if room > 0 {
			share = Share(float64(taken) / float64(room))
		}
		rooms.Rows = append(rooms.Rows, []any{what, taken, room, share})
	}
	row("packets", m.PacketsUsed, m.Packets)
	row("hosts", m.Hosts[0], m.Hosts[1])
	row("nodes", m.Nodes[0], m.Nodes[1])
	row("groups", m.Groups[0], m.Groups[1])
	row("stand-ins", m.StandIns[0], m.StandIns[1])
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	bytes := Part{Name: "bytes", Pairs: []Pair{
		{"packets", Size(m.PacketBytes)}, {"tables when full", Size(m.TableBytes)},
		{"management's heap", Size(samples[0].Value.Uint64())}, {"management from the kernel", Size(samples[1].Value.Uint64())},
	}}
	program := Part{Name: "program", Pairs: []Pair{{"goroutines", runtime.NumGoroutine()}}}
	return Result{Parts: []Part{rooms, bytes, program}}, nil
}

func runVersion(_ context.Context, c *Call) (Result, error) {
	return table(Part{Pairs: []Pair{
		{"causeway", c.Env.Version}, {"Go", runtime.Version()}, {"DPDK", strings.TrimPrefix(dpdk.Version(), "DPDK ")},
		{"running for", ageOf(c.Env.Began, time.Now())}, {"since", c.Env.Began.Format(time.RFC3339)},
	}}), nil
}

func setLogLevel(_ context.Context, c *Call) (Result, error) {
	if c.Env.Logs == nil {
		return Result{}, noAnswer("the log's level")
	}
	level := c.Value("level")
	if err := c.Env.Logs.SetLevel(level); err != nil {
		return Result{}, err
	}
	c.changed("set log level", "level", level)
	return text("The log shows " + level + " and what is more important."), nil
}

// A reloader follows a new configuration.
type reloader interface {
	Plan(*config.Config) (config.Changes, error)
	Reload(context.Context, *config.Config) (config.Changes, error)
}

func runReload(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(reloader)
	if !ok || c.Env.Load == nil {
		return Result{}, noAnswer("reload")
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

// checkReload lists what is different, live or not. It fails where a reload would, with the list all the same.
func checkReload(b reloader, cfg *config.Config) (Result, error) {
	changes, err := b.Plan(cfg)
	if never := len(changes.NeedRestart()); never > 0 {
		return table(changesPart(changes)),
			fmt.Errorf("a reload would do none of this, because of what needs a restart: %d of %d", never, len(changes))
	}
	if err != nil {
		return Result{}, err
	}
	return table(changesPart(changes)), nil
}

func changesPart(changes config.Changes) Part {
	part := Part{Name: "changes", Columns: columns("where", "what", "detail…", "needs restart"), Empty: "Nothing is different."}
	for _, x := range changes {
		part.Rows = append(part.Rows, []any{x.Where, x.What, x.Detail, !x.Live})
	}
	return part
}

// A drainer hands what it carries to another bridge.
type drainer interface {
	Drain(context.Context) error
	Resume(context.Context) error
}

func runDrain(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(drainer)
	if !ok {
		return Result{}, noAnswer("drain")
	}
	if err := b.Drain(ctx); err != nil {
		return Result{}, err
	}
	c.changed("drain")
	return text("The bridge leaves its groups and services and answers for no node; what still comes to it crosses. \"resume\" undoes it."), nil
}

func runResume(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(drainer)
	if !ok {
		return Result{}, noAnswer("resume")
	}
	if err := b.Resume(ctx); err != nil {
		return Result{}, err
	}
	c.changed("resume")
	return text("The bridge joins its groups and announces its nodes again."), nil
}

func runHalt(_ context.Context, c *Call) (Result, error) {
	if c.Env.Stop == nil {
		return Result{}, noAnswer("halt")
	}
	c.changed("halt")
	c.Env.Stop()
	return text("The bridge leaves its groups, sends what is inside, and ends."), nil
}
