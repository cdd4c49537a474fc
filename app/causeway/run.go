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

	"causeway/app/bridge"
	"causeway/app/console"
	"causeway/app/logs"
	"causeway/app/systemd"
	"causeway/config"
	"causeway/lcore"
)

// runBridge is "causeway run".
func runBridge(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("run", `Runs the bridge that a configuration file describes, in the foreground, and logs to standard error.
It logs "ready" when every group is joined on both sides. On SIGINT and SIGTERM it leaves its groups, sends the
packets that are inside, and ends. On SIGHUP it reads the file again and applies all of it or nothing: "diff" shows which
changes need a restart.

Exit codes: 0 after a signal; 1 when it cannot run, or had to end; 2 for wrong arguments; 75 when the RDMA device
is missing or not up yet, or was removed while the bridge ran. A process cannot reopen a device that was removed,
so a supervisor should restart the bridge after 75, until the device is back.`)
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
	context.AfterFunc(ctx, stop) // a second signal kills a bridge that does not stop after the first
	log, control := logs.New(cfg.Log, stderr)
	defer control.Flush()
	for _, n := range cfg.Notes {
		log.Warn("configuration", "note", n.Error())
	}
	switch err := checkMachine(*file, cfg); {
	case errors.Is(err, errDevicesUnreadable): // opening the ports will fail, with a less clear error
		log.Warn("devices", "error", err)
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitCode(err)
	}
	if err := buildAndRun(ctx, cfg, configFile{*file, hangups}, log, control); err != nil {
		fmt.Fprintln(stderr, err)
		if now := checkMachine(*file, cfg); errors.Is(now, errDeviceNotReady) { // the device was removed while the bridge was built
			return exitRetry
		}
		return exitCode(err)
	}
	return exitOK
}

// exitCode tells a supervisor whether to restart the bridge.
func exitCode(err error) int {
	if errors.Is(err, bridge.ErrDeviceGone) || errors.Is(err, errDeviceNotReady) {
		return exitRetry
	}
	return exitFailed
}

// buildAndRun builds a bridge, runs it until ctx ends, and closes it.
func buildAndRun(ctx context.Context, cfg *config.Config, from configFile, log *slog.Logger, control *logs.Control) (err error) {
	metrics, err := listenMetrics(cfg.Metrics.Listen)
	if err != nil {
		return err
	}
	consoles, err := console.Listen(cfg.Console.Listen)
	if err != nil {
		return closing(err, metrics)
	}
	b, err := bridge.Build(cfg, bridge.Options{Log: log, SetLogLevel: control.SetLevel})
	if err != nil {
		return closing(err, append(consoles, metrics)...)
	}
	defer func() {
		if closing := b.Close(); err == nil {
			err = closing
		}
		logFinal(log, b.Counters(), b.Losses())
	}()
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	if metrics != nil {
		ended := serveMetrics(ctx, metrics, b, log)
		defer ended()
	}
	defer (&consoleServer{consoles, cfg, from.file, log, control, drain}).serve(ctx, b)()
	service := systemd.New(log)
	defer service.Report(ctx, b)()
	defer from.reloadOnHangup(ctx, b, service, log)()
	return b.Run(ctx, func() {
		log.Info("ready", "name", cfg.Name, "port", cfg.RoCE.Port.String())
		service.Ready()
	})
}

// closing closes the listeners that are not nil, and returns err joined with errors of closing.
func closing(err error, all ...net.Listener) error {
	for _, l := range all {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// logFinal logs the final counters, and what was lost before packets came to the workers and after they left them.
func logFinal(log *slog.Logger, c lcore.Counters, lost [2]bridge.Losses) {
	for d := range c.Direction {
		x, direction := &c.Direction[d], lcore.Direction(d).String()
		log.Info("stopped", "direction", direction, "received", x.Received, "sent", x.Sent,
			"dropped", x.Dropped(), "drops", namedDrops(x), "conserved", x.Conserved())
		log.Info("port_losses", "direction", direction, "received", x.Received, "lost_before", lost[d].Before.Sum(), "before", lost[d].Before,
			"sent", x.Sent, "lost_after", lost[d].After.Sum(), "after", lost[d].After)
	}
}

func namedDrops(c *lcore.DirectionCounters) map[string]uint64 {
	out := map[string]uint64{}
	for d, n := range c.Drops {
		out[d.String()] = n
	}
	return out
}
