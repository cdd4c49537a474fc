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

	"causeway/app/e2e/agent/client"
)

// TestVerbsPort runs the tests of ibside/verbs in a guest of their own, on a real verbs device (rdma_rxe): the port
// with itself, and with the kernel of host A. The tests of its C side alone need a compiler and do not run in the
// guest.
func TestVerbsPort(t *testing.T) {
	proof := proves(t, "the verbs port on a kernel device: tests of ibside/verbs in a guest")
	r, a, _ := theRig(t)
	// Addresses that no bridge has answered for: for others A may still have a bridge's neighbour entry.
	const own, own6, peer, peer6, group = "10.9.0.17", "fd09::17", "10.9.0.1", "fd09::1", "239.7.7.7"
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
	defer serveUdaddy(t, a, peer, peer6)()
	flags := fmt.Sprintf("-test.skip '^(TestWithoutDevice|TestCasesNotice|TestOnLibmlx5|TestOnLibmlx5Notices|TestDirectAsLibrary|TestDirectAsLibraryNotices|TestWorkersShareNoLine|TestSharedLinesNotice|TestDeviceGone|TestEventPKey)$' -device rxe0 -netdev eth0 -peer %s,%s -peer-qpn %d -group %s -udaddy",
		peer, peer6, replier.QPN, group)
	run := func(flags string) {
		t.Helper()
		tests, err := v.Start("cd /tmp && exec " + path + " -test.v -test.timeout 8m " + flags)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // the group's sender begins when the receiver says that it is ready, and so do the clients below
			if _, err := tests.AwaitText(t.Context(), "ready for the group"); err == nil {
				_, _ = a.RunUDEnd(t.Context(), fmt.Sprintf("--ip %s --to %s --qpn 0xffffff --qkey 0x01234567 --count 20 --gap 5 send", peer, group))
			}
		}()
		defer runUdaddy(t, tests, a, [2]string{peer, own}, [2]string{peer6, own6})()
		out, exit, err := tests.Wait(within(t, 9*time.Minute))
		t.Logf("in the guest, %s:\n%s", flags, out)
		if err != nil || exit != 0 || strings.Contains(out, "--- SKIP") {
			t.Errorf("exit code %d, %v; the console:\n%s", exit, err, v.Console())
			proof.measured("%s", failures(out))
		}
		for range strings.Count(out, "--- PASS") {
			proof.add(1)
		}
	}
	run(flags)
	run("-test.run '^TestDeviceGone$' -device rxe0 -remove")
	if err := v.Must(within(t, time.Minute), findDevice("rxe0", "eth0")); err != nil {
		t.Fatal("the device's return: ", err)
	}
	run("-test.run '^(TestUnicast|TestGroups)$' -device rxe0")
}

// failures extracts the messages of failing tests from the output of a test binary, for the table at the end of a long
// log.
func failures(out string) string {
	var failed, of []string
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "=== RUN") {
			of = nil
		}
		of = append(of, line)
		if strings.HasPrefix(strings.TrimSpace(line), "--- FAIL") {
			failed, of = append(failed, of...), nil
		}
	}
	if len(failed) == 0 {
		return "ended without a test that failed; its last lines: " + out[max(0, len(out)-500):]
	}
	return strings.Join(failed, "\n    ")
}

// runUdaddy runs udaddy's client from each first address to each second, when the tests are ready for it, and not at
// all if they never are. The wait that it returns fails the test when a client has failed.
func runUdaddy(t *testing.T, tests *client.Command, g *Guest, ways ...[2]string) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := tests.AwaitText(t.Context(), "ready for udaddy"); err != nil {
			return // they have ended
		}
		for _, w := range ways {
			if err := g.Must(t.Context(), fmt.Sprintf("timeout 30 udaddy -b %s -s %s", w[0], w[1])); err != nil {
				t.Error("udaddy client: ", err)
			}
		}
	}()
	return func() { <-done }
}

// serveUdaddy runs udaddy's server, for one client, at each of a guest's addresses. The stop that it returns fails the
// test when one of them has failed.
func serveUdaddy(t *testing.T, g *Guest, addresses ...string) (stop func()) {
	t.Helper()
	var servers []*client.Command
	for _, addr := range addresses {
		c, err := g.Start("exec timeout 600 udaddy -b " + addr)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, c)
	}
	if err := g.Until(within(t, time.Minute), fmt.Sprintf("[ $(rdma resource show cm_id | grep -c LISTEN) -ge %d ]", len(addresses))); err != nil {
		t.Fatal("udaddy servers: ", err)
	}
	return func() {
		for _, c := range servers {
			if out, exit, err := c.Wait(within(t, 10*time.Second)); err != nil || exit != 0 {
				t.Errorf("a udaddy server ended with %d, %v: %s", exit, err, out)
			}
			c.Stop()
		}
	}
}
