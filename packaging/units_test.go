// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostExposed is the highest exposure, of 10, that systemd-analyze security may report for a unit.
const mostExposed = 3.0

// TestExposure checks that the units' sandboxes stay tight.
func TestExposure(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is missing: apt-get install systemd")
		}
		t.Skip("systemd-analyze is missing: apt-get install systemd")
	}
	level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, unit := range []string{"causeway.service", "causeway-hugepages.service"} {
		readable(t, filepath.Join("systemd", unit))
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", filepath.Join("systemd", unit)).CombinedOutput()
		found := level.FindSubmatch(out)
		if err != nil || found == nil {
			t.Fatalf("%s: %v\n%s", unit, err, out)
		}
		exposure, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", unit, exposure)
		if exposure > mostExposed {
			t.Errorf("%s: exposure %v, more than %v: a unit that gets more privileges must say why\n%s", unit, exposure, mostExposed, out)
		}
	}
}

// readable opens a file that another program is about to read, so that go test does not use a cached result when the
// file changes.
func readable(t *testing.T, file string) {
	t.Helper()
	if _, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
}

// TestReserveHugepages runs the script on files in place of the kernel's.
func TestReserveHugepages(t *testing.T) {
	readable(t, "systemd/reserve-hugepages")
	const meminfo = "MemTotal: 1 kB\nHugePages_Total: 100\nHugePages_Free: 40\nHugePages_Rsvd: 10\nHugepagesize: 2048 kB\n"
	for name, test := range map[string]struct {
		want, after string
		fails       bool
	}{
		"nothing":         {"0", "100", false},
		"enough are free": {"30", "100", false},
		"one is missing":  {"31", "101", false},
		"most are":        {"256", "326", false},
		"no number":       {"2M", "100", true},
		"negative":        {"-1", "100", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			nr, info := filepath.Join(dir, "nr"), filepath.Join(dir, "meminfo")
			for file, text := range map[string]string{nr: "100\n", info: meminfo} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("systemd/reserve-hugepages")
			cmd.Env = append(os.Environ(), "CAUSEWAY_HUGEPAGES="+test.want, "CAUSEWAY_NR_HUGEPAGES="+nr, "CAUSEWAY_MEMINFO="+info)
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails {
				t.Errorf("%v\n%s", err, out)
			}
			got, err := os.ReadFile(nr)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(string(got)) != test.after {
				t.Errorf("%s hugepages afterwards, want %s\n%s", got, test.after, out)
			}
		})
	}
}
