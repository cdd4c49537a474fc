// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"os"
	"path/filepath"
	"testing"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/perf/dut"
)

// The bridge takes the configuration that is written for it, and the subnet the other one.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subnet.toml")
	for _, traffic := range []dut.Traffic{
		{Payloads: []int{64}, Flows: 32, IP: []int{4}},
		{Payloads: []int{64}, Flows: 300, IP: []int{4, 6}, VLAN: 5},
	} {
		bridge, subnet, err := traffic.Config("/run/x.sock", file, 0)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("bridge.toml", []byte(bridge))
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Hosts) != 2*traffic.Flows || cfg.RoCE.VLAN != traffic.VLAN {
			t.Errorf("%d hosts, VLAN %d", len(cfg.Hosts), cfg.RoCE.VLAN)
		}
		if err := os.WriteFile(file, []byte(subnet), 0o600); err != nil {
			t.Fatal(err)
		}
		topology, err := fabric.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := fabric.New(topology); err != nil {
			t.Error(err)
		} else if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadTraffic(t *testing.T) {
	for name, traffic := range map[string]dut.Traffic{
		"no payload": {Flows: 1, IP: []int{4}},
		"short":      {Payloads: []int{8}, Flows: 1, IP: []int{4}},
		"IPv5":       {Payloads: []int{64}, Flows: 1, IP: []int{5}},
		"no flows":   {Payloads: []int{64}, IP: []int{4}},
		"too many":   {Payloads: []int{64}, Flows: dut.MaxFlows + 1, IP: []int{4}},
		"no groups":  {Payloads: []int{64}, Flows: 1, IP: []int{4}, Share: 0.5},
		"VLAN":       {Payloads: []int{64}, Flows: 1, IP: []int{4}, VLAN: 4095},
	} {
		if _, err := dut.New(dut.Config{Workers: lcores[:1], Generators: lcores[1:], Traffic: traffic}); err == nil {
			t.Errorf("%s: taken", name)
		}
		if _, err := traffic.Frames(1); err == nil {
			t.Errorf("%s: made into frames", name)
		}
	}
}
