// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo is a go that builds until make has said that it does, for 40 seconds at most, and writes down how it was
// called.
const fakeGo = `#!/bin/bash
echo "$*" >>DIR/calls
case "$1" in
env) echo go1.99 ;;
list) printf '%s\n' causeway/app/e2e causeway/app/e2e/one causeway/app/e2e/two ;;
build) for (( i = 0; i < 800; i++ )); do grep -q compiling DIR/out && exit 0; sleep .05; done; exit 1 ;;
test) while [[ $1 != -o && $# != 0 ]]; do shift; done; [[ $# == 0 ]] || cp DIR/scenarios "$2"; chmod -f +x "$2"; exit 0 ;;
esac
`

// fakeScenarios is a test binary of app/e2e that goes on once its first line is printed, and fails where DIR/fails
// names its option.
const fakeScenarios = `#!/bin/bash
echo "=== RUN   $2"
for (( i = 0; i < 800; i++ )); do grep -q "RUN   $2" DIR/out && break; sleep .05; done
(( i < 800 )) || exit 2
printf 'scenario\nall of %s\n' "$2"
! grep -qe "$2" DIR/fails
`

// makeWith runs make with that go and returns how go was called, and what make said. The lane with this option fails.
func makeWith(t *testing.T, fails string, args ...string) (calls, said []string, err error) {
	t.Helper()
	dir := files(t, map[string]string{"go": fakeGo, "scenarios": fakeScenarios, "fails": fails, "apt-cache": "#!/bin/sh\n", "out": ""})
	for _, name := range []string{"go", "apt-cache"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.OpenFile(filepath.Join(dir, "out"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("make", append(args, "-C", root(t), "PATIENCE=0.1")...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	lines := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return lines("calls"), lines("out"), err
}

// TestMakeSays checks that make says what it builds when that takes long: a silent minute looks like a hang.
func TestMakeSays(t *testing.T) {
	calls, said, err := makeWith(t, "none", "build")
	if err != nil || strings.Count(strings.Join(calls, "\n"), "build -buildmode") != 2 {
		t.Errorf("%v: go was called by\n%q; make said\n%q", err, calls, said)
	}
}

// TestMakeE2E checks that the scenarios run in two lanes, each of which has those that the other has not; that lines
// are printed at once, with their lane's name, and the closing tables last; and that make fails when one lane does.
func TestMakeE2E(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("make e2e wants root")
	}
	for _, fails := range []string{"none", "-test.run", "-test.skip"} {
		calls, said, err := makeWith(t, fails, "e2e")
		if (err != nil) != (fails != "none") {
			t.Errorf("the lane with %s fails: make: %v\n%q", fails, err, said)
		}
		if want := " causeway/app/e2e/one causeway/app/e2e/two"; !strings.HasSuffix(calls[len(calls)-2], want) {
			t.Errorf("the last call but one is %s", calls[len(calls)-2])
		}
		text := strings.Join(said, "\n")
		for _, want := range []string{"\n1: === RUN   -test.run\n", "\n2: === RUN   -test.skip\n", "\nscenario\nall of -test.run\nscenario\nall of -test.skip"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}
