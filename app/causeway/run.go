// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/signal"
	"syscall"

	"causeway/app/house"
	"causeway/app/web"
	"causeway/config"
	"causeway/lcore"
)

// runBridge runs the bridge until a signal.
func runBridge(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("run", `Runs the bridge that a configuration file describes, in the foreground, and logs to standard error.
The line with "ready" comes when every group is joined on both sides. SIGINT and SIGTERM make it leave the
groups, send what is inside, and end.`)
	file := fs.String("c", "", "the configuration `FILE`")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 || *file == "" {
		return misused(fs, stderr, "name a configuration file with -c")
	}
	cfg, err := config.Load(*file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLog(cfg.Log, stderr)
	for _, n := range cfg.Notes {
		log.Warn("configuration", "note", n.Error())
	}
	if err := bridge(ctx, cfg, log); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

func newLog(c config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // config knows the levels
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// bridge builds, runs and takes down a bridge.
func bridge(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	h, err := house.Build(cfg, house.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() {
		if closing := h.Close(); err == nil {
			err = closing
		}
		logFinal(log, h.Counters())
	}()
	if err := serveMetrics(ctx, cfg.Metrics.Listen, h, log); err != nil {
		return err
	}
	return h.Run(ctx, func() { log.Info("ready", "name", cfg.Name, "port", cfg.RoCE.Port.String()) })
}

// serveMetrics starts the HTTP server, if there is to be one. It ends with ctx.
func serveMetrics(ctx context.Context, at config.Listen, h *house.House, log *slog.Logger) error {
	if at.Network == "" {
		return nil
	}
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		return fmt.Errorf("causeway: [metrics] listen %q: %w", at.Address, err)
	}
	log.Info("metrics", "listen", l.Addr().String())
	go func() {
		if err := web.Serve(ctx, l, h); err != nil {
			log.Error("metrics", "error", err)
		}
	}()
	return nil
}

// logFinal says what became of every packet.
func logFinal(log *slog.Logger, c lcore.Counters) {
	for d := range c.Direction {
		x := &c.Direction[d]
		log.Info("stopped", "direction", lcore.Direction(d).String(), "received", x.Received, "sent", x.Sent,
			"dropped", x.Dropped(), "drops", namedDrops(x), "conserved", x.Conserved())
	}
}

func namedDrops(c *lcore.DirectionCounters) map[string]uint64 {
	out := map[string]uint64{}
	for d, n := range c.Drops {
		out[d.String()] = n
	}
	return out
}
