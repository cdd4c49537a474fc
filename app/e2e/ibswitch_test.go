// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// softNodeActive is what the switch prints when opensm has brought its software node up.
const softNodeActive = "node " + softNode + " lid "

// TestSwitch proves the switch by opensm and the programs of infiniband-diags: they find it, its counters and its software
// node, and a cable that is pulled and put in again is noticed by trap, without a sweep.
func TestSwitch(t *testing.T) {
	_, d, m := theThirdTopology(t)
	proof := proves(t, "the switch: opensm, iblinkinfo, smpquery, perfquery; a pulled cable")
	startSM(t, d.Guest, "", d.Guest, m)
	sw := third.sw
	if err := sw.awaitText(within(t, stepTime), softNodeActive); err != nil {
		t.Fatal(err)
	}
	out, exit, err := d.Run(within(t, stepTime), "iblinkinfo")
	t.Logf("iblinkinfo, exit %d, %v:\n%s", exit, err, out)
	for _, want := range []string{ibSwitch.Name, softNode, "\"M", "\"D"} {
		if !strings.Contains(out, want) {
			t.Errorf("iblinkinfo does not show %q", want)
		}
	}
	if n := strings.Count(out, "LinkUp"); n < 3 {
		t.Errorf("iblinkinfo shows %d links, want 3", n)
	}
	lid := guidLID(t, d.Guest, uint64(ibSwitch.GUID))
	out, exit, err = d.Run(within(t, stepTime), fmt.Sprintf("smpquery switchinfo %[1]s && perfquery %[1]s 1 && perfquery -x %[1]s 2", lid))
	t.Logf("exit %d, %v:\n%s", exit, err, out)
	if exit != 0 || !strings.Contains(out, "PortXmitPkts") {
		t.Error("the switch's agents do not answer")
	}
	pullAndPutIn(t, sw, d.Guest, m)
	proof.add(1)
	counters, err := sw.Counters(within(t, stepTime))
	if err == nil {
		err = counters.Conserved()
	}
	t.Logf("%+v, %v", counters, err)
	if err != nil {
		t.Error(err)
	}
}

// guidLID asks the subnet manager for the LID of a port.
func guidLID(t *testing.T, g *Guest, guid uint64) string {
	t.Helper()
	out, _, err := g.Run(within(t, stepTime), fmt.Sprintf("smpquery -G nodeinfo %#x >/dev/null; saquery -G %#x; saquery PR --dgid fe80::%x:%x:%x:%x", guid, guid, guid>>48, guid>>32&0xffff, guid>>16&0xffff, guid&0xffff))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "."); ok && name == "dlid" {
			return strings.Trim(value, ".")
		}
	}
	t.Fatalf("no LID of %#x: %s", guid, out)
	return ""
}

// pullAndPutIn has opensm notice M's cable. It sweeps every five seconds; a trap is faster.
func pullAndPutIn(t *testing.T, sw *Switch, d, m *Guest) {
	t.Helper()
	port := SwitchPort(m.Name)
	if err := sw.Pull(within(t, stepTime), port, false); err != nil {
		t.Fatal(err)
	}
	if err := m.Until(within(t, stepTime), "grep -q DOWN /sys/class/infiniband/shca0/ports/1/state"); err != nil {
		t.Fatal(err)
	}
	if err := d.Until(within(t, stepTime), "tail -n 20 /tmp/opensm.log | grep -q 'no longer in service\\|Removed port'"); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if err := sw.Pull(within(t, stepTime), port, true); err != nil {
		t.Fatal(err)
	}
	if err := m.Until(within(t, stepTime), portActive); err != nil {
		t.Fatal(err)
	}
	t.Logf("active %v after the cable was put in", time.Since(start))
	out, _, _ := d.Run(within(t, stepTime), "tail -n 40 /tmp/opensm.log")
	t.Log(out, sw.Log())
}

// awaitText waits for a line that contains a text.
func (s *Switch) awaitText(ctx context.Context, text string) error {
	return s.process.await(ctx, func(out string) bool {
		return slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool { return strings.Contains(line, text) })
	})
}
