// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/config/nesting"
	"causeway/dpdk"
)

func runConfig(_ context.Context, c *Call) (Result, error) {
	cfg := c.Env.config()
	if cfg == nil {
		return Result{}, notAvailable("the configuration")
	}
	if c.Has("toml") {
		return table(Part{Name: "text", Exact: true, Lines: strings.Split(strings.TrimSuffix(cfg.TOML(c.Role == Admin), "\n"), "\n")}), nil
	}
	part := Part{Name: "config", Columns: columns("where", "key", "value…"), Note: "All other keys have their defaults."}
	for _, x := range config.Diff(new(config.Config), cfg) {
		if c.Role != Admin {
			x = x.Public()
		}
		var key any
		if x.Key != "" {
			key = x.Key
		}
		part.Rows = append(part.Rows, []any{x.Where, key, worded{x.New, configured(x)}})
	}
	return table(part), nil
}

// configured returns the value of a key, or those of an entry's keys, as JSON has them.
func configured(x config.Change) any {
	if x.Key != "" {
		var of map[string]any
		if _, err := nesting.Decode("value = "+x.New, &of); err != nil {
			return x.New // hidden
		}
		return of["value"]
	}
	entry := object{}
	for _, field := range strings.Split(x.New, ", ") {
		name, value, _ := strings.Cut(field, " ")
		entry = append(entry, Pair{name, fieldValue(value)})
	}
	return entry
}

// fieldValue returns a value of an entry as JSON has it.
func fieldValue(s string) any {
	if n, err := strconv.ParseInt(strings.TrimSuffix(s, " pps"), 10, 64); err == nil {
		return n
	}
	if s == "true" || s == "false" {
		return s == "true"
	}
	return s
}

func runLog(_ context.Context, c *Call) (Result, error) {
	if c.Env.Logs == nil {
		return Result{}, notAvailable("the log")
	}
	n := int(value(c, "lines", uint64(50)))
	part := Part{Name: "log", Exact: true, Lines: c.Env.Logs.Recent(n)}
	if k := c.Env.Logs.Suppressed(); k > 0 {
		part.Note = fmt.Sprintf("%d lines were suppressed, because there were too many of the same event.", k)
	}
	if k := c.Env.Logs.Unwritten(); k > 0 {
		part.Note = strings.TrimSpace(fmt.Sprintf("%s %s could not be written to standard error.", part.Note, counted(int(k), "line")))
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
	row("requests", m.Requests[0], m.Requests[1])
	row("PGM streams", m.Streams[0], m.Streams[1])
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	bytes := Part{Name: "bytes", Pairs: []Pair{
		{"packets", Size(m.PacketBytes)}, {"tables when full", Size(m.TableBytes)},
		{"Go heap", Size(samples[0].Value.Uint64())}, {"Go in all", Size(samples[1].Value.Uint64())},
	}}
	parts := []Part{usage, bytes}
	if b, ok := c.Env.Bridge.(interface{ Places() []bridge.Place }); ok {
		parts = append(parts, placesPart(b.Places()))
	}
	program := Part{Name: "program", Pairs: []Pair{{"goroutines", runtime.NumGoroutine()}}}
	return Result{Parts: append(parts, program)}, nil
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
	Undo(context.Context) (config.Changes, error)
}

func runReload(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(reloader)
	if !ok || c.Env.Load == nil {
		return Result{}, notAvailable("reload")
	}
	if c.Has("check") && c.Has("confirm") {
		return Result{}, usagef("check changes nothing: leave confirm out")
	}
	c.Env.changing.Lock()
	defer c.Env.changing.Unlock()
	if c.Has("undo") {
		changes, err := c.tentatively(ctx, b.Undo)
		if err != nil {
			return Result{}, err
		}
		c.changed("reload undo", "changes", len(changes))
		part := changesPart(changes)
		part.Note = strings.TrimSpace("The file has not changed. " + c.unlessConfirmed(changes))
		return table(part), nil
	}
	cfg, err := c.Env.Load()
	if c.Has("check") && err == nil {
		return checkReload(b, cfg)
	}
	var changes config.Changes
	if err == nil {
		changes, err = c.tentatively(ctx, func(ctx context.Context) (config.Changes, error) { return b.Reload(ctx, cfg) })
	}
	if err != nil {
		c.rejected(err)
		return Result{}, err
	}
	c.changed("reload", "changes", len(changes))
	part := changesPart(changes)
	part.Note = c.unlessConfirmed(changes)
	return table(part), nil
}

// rejected logs why a reload was rejected, as after SIGHUP. A check changes nothing, and is not logged.
func (c *Call) rejected(err error) {
	if c.Env.Log == nil || c.Has("check") {
		return
	}
	for _, line := range bridge.ReloadReasons(err) {
		c.Env.Log.Error("reload_rejected", "user", c.User, "error", line)
	}
}

// runWrite saves the configuration in force to its file, unless the file has all of it.
func runWrite(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(reloader)
	if !ok || c.Env.Load == nil {
		return Result{}, notAvailable("write")
	}
	c.Env.changing.Lock()
	defer c.Env.changing.Unlock()
	if t, ok := c.Env.Bridge.(tentativeEditor); ok {
		if _, is := t.Pending(); is {
			return Result{}, errors.New("the last change is not confirmed: write confirm before, or reload undo")
		}
	}
	cfg := c.Env.config()
	if file, err := c.Env.Load(); err == nil && len(config.Diff(file, cfg)) == 0 {
		return text("The file has all of it already."), nil
	}
	saved, err := cfg.Save()
	if err != nil {
		return Result{}, err
	}
	if _, err := b.Reload(ctx, saved); err != nil { // no change, but the bridge knows its file
		return Result{}, err
	}
	c.changed("write")
	return text("The configuration in force was saved. The file before is beside it, with the ending " + config.BackupEnding + "."), nil
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
