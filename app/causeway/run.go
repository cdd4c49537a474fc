// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
groups, send what is inside, and end.

Exit codes: 0 after a signal; 1 when it cannot run, or has to end; 2 for wrong arguments; 75 when the RDMA device
is not there or not up yet, or has gone away while the bridge ran. A process cannot get a device back that it has
lost: whoever started the bridge should start it again after 75, until the device is back.`)
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
	context.AfterFunc(ctx, stop) // a second signal ends a bridge that does not end by the first
	log := newLog(cfg.Log, stderr)
	for _, n := range cfg.Notes {
		log.Warn("configuration", "note", n.Error())
	}
	switch err := suitsMachine(*file, cfg); {
	case errors.Is(err, errUnseen): // the doors will tell, if less clearly
		log.Warn("devices", "error", err)
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitCode(err)
	}
	if err := bridge(ctx, cfg, log); err != nil {
		fmt.Fprintln(stderr, err)
		if now := suitsMachine(*file, cfg); errors.Is(now, errNotYet) { // the device went while the bridge was built
			return exitAgain
		}
		return exitCode(err)
	}
	return exitOK
}

// exitCode tells whoever started the bridge whether to start it again.
func exitCode(err error) int {
	if errors.Is(err, house.ErrDeviceGone) || errors.Is(err, errNotYet) {
		return exitAgain
	}
	return exitFailed
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
	metrics, err := listenMetrics(cfg.Metrics.Listen)
	if err != nil {
		return err
	}
	h, err := house.Build(cfg, house.Options{Log: log})
	if err != nil {
		if metrics != nil {
			err = errors.Join(err, metrics.Close())
		}
		return err
	}
	defer func() {
		if closing := h.Close(); err == nil {
			err = closing
		}
		logFinal(log, h.Counters())
	}()
	if metrics != nil {
		ended := serveMetrics(ctx, metrics, h, log)
		defer ended()
	}
	return h.Run(ctx, func() { log.Info("ready", "name", cfg.Name, "port", cfg.RoCE.Port.String()) })
}

// listenMetrics listens where metrics are to be had. It comes before all else because it fails at once. nil: nowhere.
func listenMetrics(at config.Listen) (net.Listener, error) {
	if at.Network == "" {
		return nil, nil
	}
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		return nil, fmt.Errorf("causeway: [metrics] listen %q: %w; use a free one, or end who has it", at.Address, err)
	}
	return l, nil
}

// serveMetrics serves metrics until what it returns is called. They are to be had while the bridge stops, too.
func serveMetrics(ctx context.Context, l net.Listener, h *house.House, log *slog.Logger) (end func()) {
	log.Info("metrics", "listen", l.Addr().String())
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(ctx, l, h); err != nil {
			log.Error("metrics", "error", err)
		}
	}()
	return func() { stop(); <-ended }
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
