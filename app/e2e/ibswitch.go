// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"causeway/ibside/ib"
)

// SwitchConfig is an InfiniBand switch, for guests with adapters.
type SwitchConfig struct {
	Name   string
	GUID   ib.GUID
	Guests []string // each on a port: see SwitchPort; of a guest with two adapters the Cable of one
	Nodes  []string // software nodes, as ibswitch's option has them
}

// SwitchPort is the name of the switch's port for a guest: its Adapter's Peer.
func SwitchPort(guest string) string { return "port" + guest }

// Switch is a program ibswitch at work.
type Switch struct {
	rig      *Rig
	process  *process
	commands *os.File
}

// SwitchCounters are the counters of a switch and its software nodes.
type SwitchCounters struct {
	Ports []struct {
		Name                   string
		State                  string
		Received, Copies, Sent uint64
		Waiting                int
		Drops                  map[string]uint64
	}
	Nodes []struct {
		Name, State string
		LID         ib.LID
		Node        NodeCounters
	}
}

// NodeCounters are messages of a software node.
type NodeCounters struct{ Received, Echoed uint64 }

// StartSwitch builds ibswitch and starts it. It finds guests that start later.
func (r *Rig) StartSwitch(ctx context.Context, c SwitchConfig) (*Switch, error) {
	binary := r.file(c.Name + ".program")
	built, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./ibswitch").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build ibswitch: %w: %s", err, built)
	}
	words := []string{binary, "-guid", c.GUID.String(), "-description", c.Name}
	for _, g := range c.Guests {
		words = append(words, "-cable", fmt.Sprintf("%s=%s,%s", SwitchPort(g), r.cableSocket(SwitchPort(g)), r.cableSocket(g)))
	}
	for _, n := range c.Nodes {
		words = append(words, "-node", n)
	}
	s := &Switch{rig: r}
	if s.process, s.commands, err = r.ns.launchWithInput(c.Name, r.file(c.Name+".log"), words...); err != nil {
		return nil, err
	}
	r.add(s, func() { _ = s.process.stop(syscall.SIGTERM) })
	return s, s.await(ctx, "ready")
}

// await waits for a line.
func (s *Switch) await(ctx context.Context, line string) error {
	return s.process.await(ctx, func(out string) bool { return slices.Contains(strings.Split(out, "\n"), line) })
}

// Log returns what has happened.
func (s *Switch) Log() string { return s.process.output() }

// command sends a command and returns the first line of the answer that match accepts.
func (s *Switch) command(ctx context.Context, command string, match func(line string) bool) (answer string, err error) {
	before := len(s.Log())
	if _, err := io.WriteString(s.commands, command+"\n"); err != nil {
		return "", err
	}
	err = s.process.await(ctx, func(out string) bool {
		lines := strings.Split(out[before:], "\n")
		i := slices.IndexFunc(lines[:len(lines)-1], match)
		if i >= 0 {
			answer = lines[i]
		}
		return i >= 0
	})
	return answer, err
}

// Pull pulls the cable of a port, or puts it in again.
func (s *Switch) Pull(ctx context.Context, port string, in bool) error {
	command := "down " + port
	if in {
		command = "up " + port
	}
	return s.obey(ctx, command)
}

// obey sends a command that has no answer but that it was carried out.
func (s *Switch) obey(ctx context.Context, command string) error {
	answer, err := s.command(ctx, command, func(line string) bool { return line == "ok "+command || strings.HasPrefix(line, "error ") })
	if err == nil && strings.HasPrefix(answer, "error ") {
		err = errors.New(answer)
	}
	return err
}

// Lose has a port lose a share of the data that comes and goes by it; 0: nothing.
func (s *Switch) Lose(ctx context.Context, port string, percent int) error {
	return s.obey(ctx, fmt.Sprintf("lose %s %d", port, percent))
}

// Counters returns the counters.
func (s *Switch) Counters(ctx context.Context) (c SwitchCounters, err error) {
	answer, err := s.command(ctx, "counters", func(line string) bool { return strings.HasPrefix(line, "{") })
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(answer), &c)
}

// Conserved fails unless each packet was sent or dropped by name.
func (c SwitchCounters) Conserved() error {
	var in, out uint64
	for _, p := range c.Ports {
		in += p.Received + p.Copies
		out += p.Sent + uint64(p.Waiting)
		for _, n := range p.Drops {
			out += n
		}
	}
	if in != out {
		return fmt.Errorf("the switch lost count of packets: %d came, %d were sent or dropped: %+v", in, out, c.Ports)
	}
	return nil
}
