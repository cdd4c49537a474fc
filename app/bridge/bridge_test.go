// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTasks runs each of these tasks; what a task checks is said at its function.
func TestTasks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"carry", "pending", "idle", "never-run", "again", "mirrors", "rules", "counts", "cores", "management", "management-nowhere", "losses"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := task(t, name)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(out)
		})
	}
}

// TestSideBySide checks that two bridges in two processes do not disturb each other.
func TestSideBySide(t *testing.T) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if out, err := task(t, "carry"); err != nil {
				t.Error(out)
			}
		})
	}
	both.Wait()
}

func TestLeakIsReported(t *testing.T) {
	_, err := task(t, "leak")
	if err == nil || !strings.Contains(err.Error(), "3 mbufs are still in use") {
		t.Errorf("Close: %v", err)
	}
}

// TestFailures checks that a build that fails says why in one line, and leaves nothing behind.
func TestFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	topology := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(topology, []byte("[fabric]\nmtu = 4096\n[[node]]\nname = \"x\"\nguid = 7\nrole = \"eccho\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken.toml")
	if err := os.WriteFile(taken, []byte("[[node]]\nname = \"bridge\"\nguid = \""+bridgeGUIDText+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ring, subnet = `port = "ring"`, `"fabric:"`
	for _, c := range []struct {
		name     string
		from, to string // in the configuration
		want     string
	}{
		{"no such interface", ring, `port = "af_packet:nosuch0"`, "nosuch0"},
		{"a file that is not there", ring, `port = "pcap:/nonexistent/in.pcap"`, "/nonexistent/in.pcap"},
		{"no such topology file", subnet, `"fabric:/nonexistent/fabric.toml"`, "/nonexistent/fabric.toml"},
		{"an error in the topology file", subnet, `"fabric:` + topology + `"`, topology + ":6"},
		{"a GUID that is taken", subnet, `"fabric:` + taken + `"`, bridgeGUIDText[2:]},
		{"a P_Key that the subnet does not have", "pkey = 0xffff", "pkey = 0x8001", "0x8001"},
		{"an HCA", subnet, `"mlx5_0:1"`, "mlx5_0:1"},
		{"more memory than there is", "memory_mib = 64", "memory_mib = 8388608", "8388608"},
		{"a CPU that is not there", "lcores = [0]", "lcores = [126]", "126"},
		{"a port that wakes nobody", `idle = "sleep"`, `idle = "interrupt"`,
			`bridge: [workers] idle "interrupt": dpdk: port "ring": its driver wakes nobody when frames come; use "sleep", "poll" or "auto"`},
		{"nothing", "lcores = [0]", "lcores = [0]", "it was built"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := task(t, "fail", "FROM="+c.from, "TO="+c.to)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error\n%v\nwant one line with %q", err, c.want)
			}
		})
	}
}
