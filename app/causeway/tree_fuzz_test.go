// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzStub is a go that compiles fuzzers, to what a fuzzer may do.
const fuzzStub = `#!/bin/sh
case "$1 $2" in
"env GOCACHE") echo BIN ;;
"test -c")
	if ! BUILDS; then echo 'OUT'; exit 1; fi
	while [ "$1" != -o ]; do shift; done
	printf '%s\n' '#!/bin/sh' "cat <<'END'" 'OUT' END 'exit CODE' >"$2"
	chmod +x "$2"
	;;
*) echo "go $*: not expected"; exit 3 ;;
esac
`

// TestFuzzScript runs .ci/fuzz with another program in place of go, and checks what it takes for a find.
func TestFuzzScript(t *testing.T) {
	for _, c := range []struct {
		name, out string
		code      string
		fails     bool
		broken    bool
	}{
		{"nothing found", "fuzz: elapsed: 3s, execs: 100\nPASS", "0", false, false},
		{"the end, during an input", "--- FAIL: FuzzRead (3.01s)\n    context deadline exceeded\nFAIL", "1", false, false},
		{"a find", "--- FAIL: FuzzRead (1.20s)\n    Failing input written to testdata/fuzz/FuzzRead/0f", "1", true, false},
		{"a find at the end", "    Failing input written to testdata/fuzz/FuzzRead/0f\n    context deadline exceeded", "1", true, false},
		{"a find that ends the worker", "    fuzzing process hung or terminated unexpectedly: exit status 2\n    context deadline exceeded", "1", true, false},
		{"a seed fails", "    --- FAIL: FuzzRead/seed#0 (0.00s)", "1", true, false},
		{"another mention", "    x_test.go:3: context deadline exceeded", "1", true, false},
		{"it does not compile", "FAIL [build failed]", "1", true, true},
	} {
		bin := t.TempDir()
		stub := strings.NewReplacer("OUT", c.out, "CODE", c.code, "BIN", bin, "BUILDS", fmt.Sprint(!c.broken)).Replace(fuzzStub)
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(".ci/fuzz", "3s", "stamp FuzzRead")
		cmd.Dir, cmd.Env = root(t), append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails || strings.Contains(string(out), "fuzz: compiling ./ibside/stamp\nfuzz: ./ibside/stamp FuzzRead\n") == c.broken {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		if c.fails && !strings.Contains(string(out), c.out) {
			t.Errorf("%s: does not show what was found:\n%s", c.name, out)
		}
	}
}
