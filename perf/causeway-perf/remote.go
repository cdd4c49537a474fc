// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"causeway/perf/dut"
	"causeway/perf/harness"
	"causeway/perf/profile"
	"causeway/perf/trial"
)

// remote fits a profile to a bridge in another process: one way, there and back, and no groups, which are that process's.
func (o *options) remote(p *profile.Profile) error {
	if slices.Contains(p.Tests, "multicast") {
		if o.test == "multicast" {
			return errors.New("causeway-perf: -memif: a bridge in another process is not told of groups; measure multicast without")
		}
		p.Tests = slices.DeleteFunc(p.Tests, func(t string) bool { return t == "multicast" })
	}
	p.Directions = []string{"roce_to_ib"}
	p.Device.Slice = 0 // a standstill of another process is not seen
	for i := range p.Traffic {
		p.Traffic[i].Flows = min(p.Traffic[i].Flows, configFlows)
		p.Traffic[i].Share, p.Traffic[i].Groups = 0, 0
	}
	return nil
}

// configFlows are the hosts, and nodes, of the configuration: a software subnet is no fast one.
const configFlows = 32

// ungrouped is a device that has no groups to change.
type ungrouped struct{ trial.Device }

var errUngrouped = errors.New("causeway-perf: groups are the other process's")

func (ungrouped) SetGroups(int) error         { return errUngrouped }
func (ungrouped) SetShare(int, float64) error { return nil }
func (ungrouped) Missing() int                { return 0 }

func (ungrouped) Join(context.Context, trial.Load, int) (time.Duration, error) {
	return 0, errUngrouped
}

func (ungrouped) Leave(context.Context, trial.Load, int) (time.Duration, error) {
	return 0, errUngrouped
}

// buildRemote goes to the bridge in another process.
func (l *local) buildRemote(c profile.Case) (harness.Built, error) {
	m, err := dut.NewAnswered(l.generators[0], l.memif, traffic(c, 0))
	if err != nil {
		return harness.Built{}, err
	}
	m.CheckEvery = l.profile.Device.CheckEvery
	if err := m.WaitPeer(context.Background()); err != nil {
		return harness.Built{}, errors.Join(err, m.Close())
	}
	return harness.Built{Groups: ungrouped{m}, Close: m.Close}, nil
}

func configCommand(args []string) error {
	fs := newFlags("config", "[OPTIONS]", `Writes bridge.toml and subnet.toml for a bridge that can be measured as a whole, in a process of its own:

    causeway-perf config -out DIR
    causeway run -c DIR/bridge.toml
    causeway-perf throughput -memif DIR/memif.sock

The nodes of its software subnet, which is not fast, answer each message.`)
	out := fs.String("out", ".", "the `DIR` for the files")
	cpu := fs.Int("cpu", 0, "the `CPU` of the bridge's worker")
	vlan := fs.Uint("vlan", 0, "VLAN `ID` of the RoCE side")
	if err := parseFlags(fs, args, 0, 0); err != nil {
		return err
	}
	dir, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t := dut.Traffic{Payloads: []int{64}, Flows: configFlows, IP: []int{4}, VLAN: uint16(min(*vlan, 4095))}
	bridge, subnet, err := t.Config(filepath.Join(dir, "memif.sock"), filepath.Join(dir, "subnet.toml"), *cpu)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"bridge.toml": bridge, "subnet.toml": subnet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("causeway run -c %s\n", filepath.Join(dir, "bridge.toml"))
	return nil
}
