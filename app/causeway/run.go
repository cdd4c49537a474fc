// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"causeway/app/console"
	"causeway/app/house"
	"causeway/app/logs"
	"causeway/app/systemd"
	"causeway/config"
	"causeway/lcore"
)

// runBridge runs the bridge until a signal.
func runBridge(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("run", `Runs the bridge that a configuration file describes, in the foreground, and logs to standard error.
The line with "ready" comes when every group is joined on both sides. SIGINT and SIGTERM make it leave the
groups, send what is inside, and end. SIGHUP makes it read the file again and follow it, all of it or nothing: "diff" says
what that can be.

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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	context.AfterFunc(ctx, stop) // a second signal ends a bridge that does not end by the first
	log, control := logs.New(cfg.Log, stderr)
	defer control.Flush()
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
	if err := bridge(ctx, cfg, configFile{*file, hangups}, log, control); err != nil {
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

// bridge builds, runs and takes down a bridge.
func bridge(ctx context.Context, cfg *config.Config, from configFile, log *slog.Logger, control *logs.Control) (err error) {
	metrics, err := listenMetrics(cfg.Metrics.Listen)
	if err != nil {
		return err
	}
	operators, err := console.Listen(cfg.Console.Listen)
	if err != nil {
		return closing(err, metrics)
	}
	h, err := house.Build(cfg, house.Options{Log: log, SetLogLevel: control.SetLevel})
	if err != nil {
		return closing(err, append(operators, metrics)...)
	}
	defer func() {
		if closing := h.Close(); err == nil {
			err = closing
		}
		logFinal(log, h.Counters())
	}()
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	if metrics != nil {
		ended := serveMetrics(ctx, metrics, h, log)
		defer ended()
	}
	defer (&consoleOf{operators, cfg, from.file, log, control, drain}).serve(ctx, h)()
	service := systemd.New(log)
	defer service.Watch(ctx, h)()
	defer from.follow(ctx, h, service, log)()
	return h.Run(ctx, func() {
		log.Info("ready", "name", cfg.Name, "port", cfg.RoCE.Port.String())
		service.Ready()
	})
}

// closing closes listeners that are there, and returns why.
func closing(err error, all ...net.Listener) error {
	for _, l := range all {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
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
