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

// remote adapts a profile to a bridge in another process: RoCE to IB, as a round trip, without groups, which cannot be
// changed in that process.
func (o *options) remote(p *profile.Profile) error {
	if slices.Contains(p.Tests, "multicast") {
		if o.test == "multicast" {
			return errors.New("causeway-perf: -memif: groups of a bridge in another process cannot be changed; measure multicast without -memif")
		}
		p.Tests = slices.DeleteFunc(p.Tests, func(t string) bool { return t == "multicast" })
	}
	p.Directions = []string{"roce_to_ib"}
	p.Device.Slice = 0 // stalls of another process are not seen
	for i := range p.Traffic {
		p.Traffic[i].Flows = min(p.Traffic[i].Flows, configFlows)
		p.Traffic[i].Share, p.Traffic[i].Groups = 0, 0
	}
	return nil
}

// configFlows is the number of hosts, and of nodes, in the configuration. It is small: a software subnet is slow.
const configFlows = 32

// ungrouped is a device whose groups cannot be changed.
type ungrouped struct{ trial.Device }

var errUngrouped = errors.New("causeway-perf: groups of another process cannot be changed")

func (ungrouped) SetGroups(int) error         { return errUngrouped }
func (ungrouped) SetShare(int, float64) error { return nil }
func (ungrouped) Missing() int                { return 0 }

func (ungrouped) Join(context.Context, trial.Load, int) (time.Duration, error) {
	return 0, errUngrouped
}

func (ungrouped) Leave(context.Context, trial.Load, int) (time.Duration, error) {
	return 0, errUngrouped
}

// buildRemote connects to the bridge in another process.
func (l *local) buildRemote(c profile.Case) (harness.Built, error) {
	m, err := dut.NewEchoed(l.generators[0], l.memif, traffic(c, 0))
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
	fs := newFlags("config", "[OPTIONS]", `Writes bridge.toml and subnet.toml for measuring a whole bridge in another process:

    causeway-perf config -out DIR
    causeway run -c DIR/bridge.toml
    causeway-perf throughput -memif DIR/memif.sock

The nodes of its software subnet echo each message. The software subnet limits the rate.`)
	out := fs.String("out", ".", "`DIR` for the files")
	cpu := fs.Int("cpu", 0, "`CPU` of the bridge's worker")
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
