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

// noticeTime is how soon opensm has acted on a trap: by its own log half a second after it.
const noticeTime = 2 * time.Second

// TestSwitch proves the switch by opensm and the programs of infiniband-diags: they find it, its counters and its
// software node, which answers messages; and a cable that is pulled and put in again is noticed by trap.
func TestSwitch(t *testing.T) {
	_, d, m := theThirdTopology(t)
	proof := proves(t, "third topology: switch, its agents and software node by opensm's side; a pulled cable")
	startSM(t, d.Guest, "-s 60", d.Guest, m) // it looks by itself once a minute
	proof.add(echoes(t, third.sw, d))
	out := diagnose(t, d.Guest, "iblinkinfo")
	for _, want := range []string{ibSwitch.Name, softNode, d.Name, m.Name} {
		if !strings.Contains(out, fmt.Sprintf("%q", want)) {
			t.Errorf("iblinkinfo does not show %q:\n%s", want, out)
		}
	}
	lid := lidOf(t, d.Guest, ibSwitch.Name)
	if out := diagnose(t, d.Guest, "smpquery switchinfo "+lid); !strings.Contains(out, "PartEnforceCap:..................16") {
		t.Error(out)
	}
	if out := diagnose(t, d.Guest, fmt.Sprintf("perfquery -x %s 1", lid)); !strings.Contains(out, "PortXmitPkts:") || strings.Contains(out, "PortXmitPkts:....................0") {
		t.Error(out)
	}
	pullAndPutIn(t, third.sw, d.Guest, m)
	switchConserved(t)
}

// switchConserved fails unless the switch has accounted for each packet. The guests' kernels may be sending.
func switchConserved(t *testing.T) {
	t.Helper()
	if err := untilConserved(t, third.sw); err != nil {
		t.Fatal(err)
	}
}

// untilConserved waits until a switch has accounted for each packet.
func untilConserved(t *testing.T, sw *Switch) error {
	t.Helper()
	for ctx := within(t, 5*time.Second); ; time.Sleep(pollEvery) {
		c, err := sw.Counters(within(t, stepTime))
		if err == nil {
			err = c.Conserved()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// diagnose runs a program of infiniband-diags, which must succeed.
func diagnose(t *testing.T, g *Guest, command string) string {
	t.Helper()
	out, exit, err := g.Run(within(t, stepTime), command)
	if err != nil || exit != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", command, exit, err, out)
	}
	return out
}

// lidOf returns the LID that the subnet manager has given a node.
func lidOf(t *testing.T, g *Guest, description string) string {
	t.Helper()
	lid, out := "", diagnose(t, g, "saquery NR")
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ".")
		value = strings.TrimLeft(value, ".")
		switch {
		case name == "lid":
			lid = value
		case name == "NodeDescription" && value == description:
			return lid
		}
	}
	t.Fatalf("opensm knows no %s:\n%s", description, out)
	return ""
}

// echoes has a program of D send to the software node, which answers each message. It returns how many there were.
func echoes(t *testing.T, sw *Switch, d *BridgeGuest) int {
	t.Helper()
	const count = 200
	if err := sw.awaitEvent(within(t, stepTime), "node "+softNode+" lid "); err != nil {
		t.Fatal(err)
	}
	bin, err := bridgeProgram()
	if err != nil {
		t.Fatal(err)
	}
	program, err := d.Put(within(t, stepTime), bin)
	if err != nil {
		t.Fatal(err)
	}
	before := softStats(t, sw)
	diagnose(t, d.Guest, fmt.Sprintf("%s send -on verbs:shca0 -to %v -qpn %#x -count %d -rate 200 -size 2048",
		program, softGID, softQPN, count))
	for ctx := within(t, stepTime); ; time.Sleep(pollEvery) {
		after := softStats(t, sw)
		if n := after.Echoed - before.Echoed; n == count {
			return count
		} else if ctx.Err() != nil {
			t.Fatalf("the node answered %d messages, want %d: %+v", n, count, after)
		}
	}
}

func softStats(t *testing.T, sw *Switch) NodeCounters {
	t.Helper()
	c, err := sw.Counters(within(t, stepTime))
	if err != nil || len(c.Nodes) != 1 {
		t.Fatal(c, err)
	}
	return c.Nodes[0].Node
}

// pullAndPutIn pulls m's cable, which opensm in d notices by trap.
func pullAndPutIn(t *testing.T, sw *Switch, d, m *Guest) {
	t.Helper()
	port := SwitchPort(m.Name)
	slowness := d.slowness(t.Context())
	start := time.Now()
	if err := sw.Pull(within(t, stepTime), port, false); err != nil {
		t.Fatal(err)
	}
	gone := fmt.Sprintf("saquery NR >/tmp/nodes && ! grep -q 'NodeDescription[.]*%s$' /tmp/nodes", m.Name)
	if err := d.Until(within(t, stepTime), gone); err != nil {
		t.Fatal(err)
	}
	noticed := time.Since(start)
	if err := sw.Pull(within(t, stepTime), port, true); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if err := m.Until(within(t, stepTime), portActive); err != nil {
		t.Fatal(err)
	}
	active := time.Since(start)
	t.Logf("a pulled cable noticed within %v, active %v after it was put in", noticed, active)
	if limit := stretched(t, noticeTime, d, slowness); noticed > limit || active > limit {
		t.Errorf("want each within %v", limit)
	}
}

// awaitEvent waits for a line that begins with a text.
func (s *Switch) awaitEvent(ctx context.Context, prefix string) error {
	return s.process.await(ctx, func(out string) bool {
		return slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool { return strings.HasPrefix(line, prefix) })
	})
}
