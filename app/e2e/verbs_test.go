// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVerbsDoor runs the tests of ibside/verbs in a guest of their own, on a real verbs device (rdma_rxe): the door
// with itself, and with the kernel of host A. The tests of its C side alone need a compiler and stay outside.
func TestVerbsDoor(t *testing.T) {
	r, a, _ := theRig(t)
	// Addresses that no bridge has answered for: A would still know the bridge by them.
	const own, own6, peer, group = "10.9.0.17", "fd09::17", "10.9.0.1", "239.7.7.7"
	binary := filepath.Join(t.TempDir(), "verbs.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "causeway/ibside/verbs").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	v, err := r.BootBridgeGuest(t.Context(), GuestConfig{
		Name: "V", MiB: 1536, NICs: []NIC{{MTU: hostMTU, RDMA: true, Addrs: []string{own + "/24", own6 + "/64"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Stop()
	forgetNeighbours(t, a)
	path, err := v.Put(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	replier, err := a.StartUDEnd(within(t, time.Minute), "--ip "+peer+" --count 1000 --seconds 600 reply")
	if err != nil {
		t.Fatal(err)
	}
	defer replier.Stop()
	proof := proves(t, "the verbs door on a kernel device: tests of ibside/verbs in a guest")
	flags := fmt.Sprintf("-test.skip '^(TestWithoutDevice|TestCasesNotice|TestDeviceGone)$' -device rxe0 -netdev eth0 -peer %s,fd09::1 -peer-qpn %d -group %s",
		peer, replier.QPN, group)
	run := func(flags string) {
		t.Helper()
		tests, err := v.Start("cd /tmp && exec " + path + " -test.v -test.timeout 8m " + flags)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // the group's sender begins when the receiver says that it is ready
			if _, err := tests.AwaitText(t.Context(), "ready for the group"); err == nil {
				_, _ = a.RunUDEnd(t.Context(), fmt.Sprintf("--ip %s --to %s --qpn 0xffffff --qkey 0x01234567 --count 20 --gap 5 send", peer, group))
			}
		}()
		out, exit, err := tests.Wait(within(t, 9*time.Minute))
		t.Logf("in the guest, %s:\n%s", flags, out)
		if err != nil || exit != 0 || strings.Contains(out, "--- SKIP") {
			t.Errorf("exit code %d, %v; the console:\n%s", exit, err, v.Console())
		}
		for range strings.Count(out, "--- PASS") {
			proof.add(1)
		}
	}
	run(flags)
	run("-test.run '^TestDeviceGone$' -device rxe0 -remove")
	if err := v.Must(within(t, time.Minute), "until ! rdma link show | grep -q rxe0; do sleep .1; done; rdma link add rxe0 type rxe netdev eth0;"+rdmaNodes); err != nil {
		t.Fatal("the device's return: ", err)
	}
	run("-test.run '^(TestUnicast|TestGroups)$' -device rxe0")
}
