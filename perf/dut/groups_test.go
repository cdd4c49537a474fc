// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"testing"
	"time"

	"causeway/perf/dut"
	"causeway/perf/trial"
)

// Messages to groups that are not joined are dropped as mc_unknown, others are forwarded; joins and leaves are
// measured.
func TestGroups(t *testing.T) {
	d := build(t, dut.Traffic{Payloads: []int{64}, Flows: 8, IP: []int{4}, Groups: 6})
	one := []trial.Direction{trial.RoCEToIB}
	l := trial.At(one, 50000, 0)
	l.Packets = 600
	if err := d.SetGroups(6); err != nil {
		t.Fatal(err)
	}
	o, err := d.Run(t.Context(), l)
	if err != nil || o.Counts[0].Received != 600 || d.Missing() != 0 {
		t.Errorf("all joined: %+v, %d missing, %v", o.Counts[0], d.Missing(), err)
	}
	if err := d.SetGroups(7); err == nil {
		t.Error("more groups than it was built for")
	}
	long := trial.At(one, 20000, 200*time.Millisecond)
	left, err := d.Leave(t.Context(), long, 5)
	if err != nil || left > 30*time.Second {
		t.Errorf("leave: %v, %v", left, err)
	}
	if o, err = d.Run(t.Context(), l); err != nil || o.Drops["roce_to_ib.mc_unknown"] == 0 ||
		o.Drops["roce_to_ib.mc_unknown"]+o.Counts[0].Received != 600 {
		t.Errorf("one has left: %+v, drops %v, %v", o.Counts[0], o.Drops, err)
	}
	joined, err := d.Join(t.Context(), long, 5)
	if err != nil || joined <= 0 || joined > 30*time.Second {
		t.Errorf("join: %v, %v", joined, err)
	}
	if _, err := d.Join(t.Context(), long, 5); err == nil {
		t.Error("joined twice")
	}
}

// Half of the messages go to groups, in both directions.
func TestShare(t *testing.T) {
	d := build(t, dut.Traffic{Payloads: []int{64}, Flows: 8, IP: []int{4}, Groups: 4})
	if err := d.SetShare(4, 0.5); err != nil {
		t.Fatal(err)
	}
	l := trial.At([]trial.Direction{trial.IBToRoCE}, 50000, 0)
	l.Packets = 800
	o, err := d.Run(t.Context(), l)
	if err != nil || o.Counts[1].Received != 800 || d.Missing() != 0 {
		t.Errorf("%+v, %d missing, %v", o.Counts[1], d.Missing(), err)
	}
	if err := d.SetShare(0, 0); err != nil {
		t.Fatal(err)
	}
	if o, err = d.Run(t.Context(), l); err != nil || o.Counts[1].Received != 800 {
		t.Errorf("none to groups: %+v, %v", o.Counts[1], err)
	}
}
