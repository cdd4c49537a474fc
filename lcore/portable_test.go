// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"causeway/lcore"
)

// inPortable says in the environment of a test that its C was built with CAUSEWAY_PORTABLE.
const inPortable = "CAUSEWAY_IN_PORTABLE"

// TestPortable runs the tests of the packet path and of the tables again, with the C for CPUs other than x86: its
// parser, hash, tag compare and ICRC. Long tests are shortened.
func TestPortable(t *testing.T) {
	if os.Getenv(inPortable) != "" {
		if name := lcore.ICRCVersion(); name != "table" {
			t.Errorf("the ICRC is %q's: the C was not built with CAUSEWAY_PORTABLE", name)
		}
		return
	}
	flags := os.Getenv("CGO_CFLAGS")
	if flags == "" {
		flags = "-g -O2" // Go's own
	}
	cmd := exec.Command("go", "test", "-short", "-skip", "^(TestCFuzzers|TestReaders.*)$", "causeway/lcore", "causeway/tables")
	cmd.Env = append(os.Environ(), "CGO_CFLAGS="+flags+" -DCAUSEWAY_PORTABLE", inPortable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "ok  "); n != 2 {
		t.Errorf("%d packages passed, want 2:\n%s", n, out)
	}
}
