// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readyWithin covers DPDK's start and the joins on both sides.
	readyWithin = 2 * time.Minute
	// program is built by make; CAUSEWAY_BIN names another.
	program = "../../bin/causeway"
)

// Causeway logs with slog; these match its text and its JSON form.
var (
	readyLine     = regexp.MustCompile(`msg"?[=:]"?ready\b`)
	stoppedLine   = regexp.MustCompile(`msg"?[=:]"?stopped\b.*`)
	conservedText = regexp.MustCompile(`conserved"?[=:]true`)
)

// Causeway is a bridge that runs between the segment and a software subnet.
type Causeway struct {
	Socket  string // other processes attach to the subnet here: see AttachNode
	process *process
	rig     *Rig
}

// runs numbers the files of successive bridges.
var runs atomic.Int64

// StartCauseway starts the bridge and waits until its subnet can be attached to.
// The bridge is ready only when it has found its IB nodes: attach them, then call
// Ready. In config, FABRIC stands for the topology file, and in topology, SOCKET for the
// socket: `port = "fabric:FABRIC"`, `socket = "SOCKET"`.
func (r *Rig) StartCauseway(ctx context.Context, config, topology string) (*Causeway, error) {
	bin, err := bridgeProgram()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("causeway-%d", runs.Add(1))
	c := &Causeway{rig: r, Socket: r.file(name + ".sock")}
	fabricFile, configFile := r.file(name+".fabric.toml"), r.file(name+".toml")
	err = errors.Join(
		os.WriteFile(fabricFile, []byte(strings.ReplaceAll(topology, "SOCKET", c.Socket)), 0o644),
		os.WriteFile(configFile, []byte(strings.ReplaceAll(config, "FABRIC", fabricFile)), 0o644))
	if err != nil {
		return nil, err
	}
	if c.process, err = r.ns.launch(name, r.file(name+".log"), bin, "run", "-c", configFile); err != nil {
		return nil, err
	}
	r.add(c, func() { _ = c.process.stop(syscall.SIGTERM) })
	return c, c.await(ctx, func(string) bool { _, err := os.Stat(c.Socket); return err == nil })
}

// Ready waits until the bridge says that it is ready.
func (c *Causeway) Ready(ctx context.Context) error { return c.await(ctx, readyLine.MatchString) }

func (c *Causeway) await(ctx context.Context, match func(log string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return c.process.await(ctx, match)
}

func bridgeProgram() (string, error) {
	bin := os.Getenv("CAUSEWAY_BIN")
	if bin == "" {
		bin = program
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("the bridge is not built: %w; run make build", err)
	}
	return filepath.Abs(bin)
}

// Log returns what the bridge has logged.
func (c *Causeway) Log() string { return c.process.output() }

// Stop ends the bridge. It fails unless the bridge exits with code 0 and reports for each direction that received =
// sent + drops.
func (c *Causeway) Stop() error {
	c.rig.remove(c)
	if err := c.process.stop(syscall.SIGTERM); err != nil {
		return fmt.Errorf("causeway: %w; it logged:\n%s", err, lastLines(c.Log()))
	}
	return conserved(c.Log())
}

// conserved reads the log of a bridge that has exited, and checks that it counted every packet.
func conserved(log string) error {
	stopped := stoppedLine.FindAllString(log, -1)
	if len(stopped) == 0 {
		return fmt.Errorf("causeway did not log its counters; it logged:\n%s", lastLines(log))
	}
	for _, line := range stopped {
		if !conservedText.MatchString(line) {
			return fmt.Errorf("causeway lost count of packets: %s", line)
		}
	}
	return nil
}
