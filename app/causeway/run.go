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
	"path/filepath"
	"syscall"

	"causeway/app/bridge"
	words "causeway/app/command"
	"causeway/app/console"
	"causeway/app/logs"
	"causeway/app/rights"
	"causeway/app/systemd"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

// runBridge is "causeway run".
func runBridge(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("run", `Runs the bridge that a configuration file describes, in the foreground, and logs to standard error.
It logs "ready" when every group is joined on both sides, and frames can pass the network interface: for its link it waits. On SIGINT and SIGTERM it leaves its groups, sends the
packets that are inside, and ends. On SIGHUP it reads the file again and applies all of it or nothing: "diff" shows which
changes need a restart.

Exit codes: 0 after a signal; 1 when it cannot run, or had to end; 2 for wrong arguments; 75 when the RDMA device
is missing or not up yet, or another process's subnet (fabric:SOCKET) is not there yet, or the network interface is missing, or a
device was removed while the bridge ran and this process cannot take it again. So a supervisor should restart the bridge after 75,
until the device is back.`)
	file := fs.String("c", "", "the configuration `FILE`")
	unconfined := fs.Bool("unconfined", false, "for debugging: keep all capabilities, and leave workers all system calls")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 || *file == "" {
		if fs.NArg() == 1 && *file == "" {
			return misused(fs, stderr, "write -c before the file: -c "+fs.Arg(0))
		}
		return misused(fs, stderr, "name one configuration file, with -c")
	}
	cfg, err := config.Load(*file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	// A bridge does not end because nobody reads its log; systemd would take that for a clean end.
	signal.Ignore(syscall.SIGPIPE)
	out := logs.NewOutput(stderr)
	defer out.Close()
	return runConfigured(*file, cfg, *unconfined, out)
}

// runConfigured runs the bridge of a configuration file, and writes to out its log and why it ends.
func runConfigured(file string, cfg *config.Config, unconfined bool, out *logs.Output) int {
	log, control := logs.New(cfg.Log, out)
	defer control.Flush()
	if err := suits(cfg, log); err != nil {
		fmt.Fprintln(out, err)
		return exitCode(err)
	}
	if !unconfined {
		out.Flush() // the program is run again
		if err := reduceRights(file, cfg, log); err != nil {
			fmt.Fprintln(out, err)
			return exitFailed
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, shared, err := bridge.StartWith(ctx, cfg, keptShared(file), log)
	if err != nil {
		fmt.Fprintln(out, err)
		return exitFailed
	}
	for _, n := range cfg.Notes {
		log.Warn("configuration", "note", n.Error())
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	context.AfterFunc(ctx, stop) // a second signal kills a bridge that does not stop after the first
	options := bridge.Options{Log: log, SetLogLevel: control.SetLevel, Unconfined: unconfined, Shared: shared}
	if err := buildAndRun(ctx, cfg, configFile{file: file, hangups: hangups}, options, control); err != nil {
		control.Flush() // so that why it ends is the last line
		fmt.Fprintln(out, err)
		if now := checkMachine(cfg); errors.Is(now, errDeviceNotReady) { // the device was removed while the bridge was built
			return exitRetry
		}
		return exitCode(err)
	}
	return exitOK
}

// keptShared is the file that has what a bridge's fleet shares, for a start without etcd: in the folder that systemd made for
// the bridge, or beside its configuration.
func keptShared(file string) string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.Join(dir, "pushed.json")
	}
	return file + ".pushed"
}

// suits returns what keeps a configuration from running on this machine.
func suits(cfg *config.Config, log *slog.Logger) error {
	if err := checkTopology(cfg); err != nil {
		return err
	}
	err := checkMachine(cfg)
	if errors.Is(err, errDevicesUnreadable) {
		if !rights.RunAgain() { // it was checked, with more rights
			log.Warn("devices", "error", err) // opening the ports will fail, with a less clear error
		}
		return nil
	}
	return err
}

// reduceRights gives up all capabilities that the bridge does not need. It runs the program again and then returns.
func reduceRights(file string, cfg *config.Config, log *slog.Logger) error {
	has, err := rights.Reduce(rights.Kept(cfg), file)
	if err == nil {
		log.Info("rights", "capabilities", has.String())
	}
	return err
}

// exitCode tells a supervisor whether to restart the bridge.
func exitCode(err error) int {
	if errors.Is(err, bridge.ErrDeviceGone) || errors.Is(err, errDeviceNotReady) || errors.Is(err, dpdk.ErrNoInterface) {
		return exitRetry
	}
	return exitFailed
}

// buildAndRun builds a bridge, runs it until ctx ends, and closes it.
func buildAndRun(ctx context.Context, cfg *config.Config, from configFile, o bridge.Options, control *logs.Control) (err error) {
	log := o.Log
	metrics, err := listenMetrics(cfg.Metrics.Listen)
	if err != nil {
		return err
	}
	consoles, err := console.Listen(cfg.Console.Listen)
	if err != nil {
		return closing(err, metrics)
	}
	dismiss, err := startWitness(from.file, cfg, log)
	if err != nil {
		return closing(err, append(consoles, metrics)...)
	}
	defer dismiss()
	b, err := bridge.Build(cfg, o)
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
	sampler, ended := startSampler(ctx, b)
	defer ended()
	if metrics != nil {
		ended := serveMetrics(ctx, metrics, b, sampler, log, control)
		defer ended()
	}
	defer (&consoleServer{consoles, cfg, from.file, log, control, drain, sampler}).serve(ctx, b)()
	service := systemd.New(log)
	defer service.Report(ctx, b)()
	defer from.reloadOnHangup(ctx, b, service, log)()
	return b.Run(ctx, func() {
		log.Info("ready", "name", cfg.Name, "port", cfg.RoCE.Port.String())
		service.Ready()
	})
}

// startSampler reads the counters once a second until end is called, which is after the bridge has stopped.
func startSampler(ctx context.Context, b *bridge.Bridge) (s *words.Sampler, end func()) {
	s = words.NewSampler(b)
	ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	go s.Run(ctx)
	return s, end
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
		args := []any{"direction", direction, "received", x.Received, "lost_before", lost[d].Before.Sum(), "before", lost[d].Before,
			"sent", x.Sent, "lost_after", lost[d].After.Sum(), "after", lost[d].After}
		if lost[d].BeforeUnknown {
			args = append(args, "missed", "not known")
		}
		log.Info("port_losses", args...)
	}
}

func namedDrops(c *lcore.DirectionCounters) map[string]uint64 {
	out := map[string]uint64{}
	for d, n := range c.Drops {
		out[d.String()] = n
	}
	return out
}
