// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"regexp"
	"strconv"
	"testing"
)

// steeredFrames is what dpdk's tests say when they have checked where frames went.
var steeredFrames = regexp.MustCompile(`steered (\d+) frames`)

// TestFlowSteering runs the tests of package dpdk that want flow rules to work, in a
// guest: net_tap makes them out of the classifiers that Debian's kernel has.
func TestFlowSteering(t *testing.T) {
	_, c, _ := theSecondTopology(t)
	proof := proves(t, "rte_flow on a port shared with the kernel: each kind of frame to its queue, the rest to the kernel")
	out, err := c.RunTests(within(t, 3*stepTime), // compiling C takes its time on a busy machine
		"causeway/dpdk", "^TestSteering",
		"modprobe -a tun sch_multiq sch_ingress cls_flower act_gact act_mirred act_skbedit")
	if err != nil {
		t.Errorf("%v; it printed:\n%s", err, out)
	}
	for _, found := range steeredFrames.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(found[1]) // digits
		proof.add(n)
	}
}
