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

// fakeScenarios is a test binary of app/e2e that goes on once its first line is printed. DIR/fails tells what fails: the
// option of a lane, and then "twice" if its test fails alone as well, or "dies" if the lane does.
const fakeScenarios = `#!/bin/bash
read -r lane how <DIR/fails
if [[ $3 == "^(TestLost)\$" ]]; then
	echo "=== RUN   alone"
	[[ $how != twice ]]; exit
fi
echo "=== RUN   $2"
for (( i = 0; i < 800; i++ )); do grep -q "RUN   $2" DIR/out && break; sleep .05; done
(( i < 800 )) || exit 3
[[ $lane == "$2" ]] && echo "--- FAIL: TestLost (0.10s)"
printf 'scenario\nall of %s\n' "$2"
[[ $lane != "$2" ]] || exit $([[ $how == dies ]] && echo 2 || echo 1)
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
	if err != nil || strings.Count(strings.Join(calls, "\n"), "build -buildmode") != 3 {
		t.Errorf("%v: go was called by\n%q; make said\n%q", err, calls, said)
	}
}

// TestMakeE2E checks that the scenarios run in two lanes, each of which has those that the other has not, and some alone
// then; that lines are printed at once, with their lane's name, and the closing tables last; and that make fails when a test fails twice,
// or a lane dies, but not when a test fails beside the other lane alone.
func TestMakeE2E(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("make e2e wants root")
	}
	for _, c := range []struct {
		fails        string
		alone, green bool
	}{
		{"none", false, true},
		{"-test.run once", true, true},
		{"-test.skip once", true, true},
		{"-test.timeout once", true, true},
		{"-test.skip twice", true, false},
		{"-test.run dies", false, false},
	} {
		calls, said, err := makeWith(t, c.fails, "e2e")
		if (err == nil) != c.green {
			t.Errorf("fails %s: make: %v\n%q", c.fails, err, said)
		}
		if want := " causeway/app/e2e/one causeway/app/e2e/two"; !strings.HasSuffix(calls[len(calls)-2], want) {
			t.Errorf("the last call but one is %s", calls[len(calls)-2])
		}
		text := strings.Join(said, "\n")
		for _, want := range []string{"\n1: === RUN   -test.run\n", "\n2: === RUN   -test.skip\n", "\n3: === RUN   -test.timeout\n", "\nscenario\nall of -test.run\nscenario\nall of -test.skip\nscenario\nall of -test.timeout"} {
			if !strings.Contains(text, want) {
				t.Errorf("fails %s: no %q in\n%s", c.fails, want, text)
			}
		}
		if strings.Contains(text, "\nagain: === RUN   alone") != c.alone || strings.Contains(text, "passed alone: TestLost") != (c.alone && c.green) {
			t.Errorf("fails %s: make says\n%s", c.fails, text)
		}
	}
}

// TestPackagesTwice checks that a package that fails beside others is tested once more, and what is red at once.
func TestPackagesTwice(t *testing.T) {
	for _, c := range []struct {
		first, again string // what go says; it fails unless that begins with ok
		alone, green bool
	}{
		{"ok \tcauseway/a", "", false, true},
		{"--- FAIL: TestA\nFAIL\nFAIL\tcauseway/a\t0.1s\nok  \tcauseway/b\nFAIL", "ok  \tcauseway/a", true, true},
		{"--- FAIL: TestA\nFAIL\nFAIL\tcauseway/a\t0.1s\nFAIL", "FAIL\tcauseway/a", true, false},
		{"panic: no\nFAIL\tcauseway/a\t0.1s\nFAIL", "ok  \tcauseway/a", false, false},
		{"FAIL\tcauseway/a [build failed]\nFAIL", "ok  \tcauseway/a", false, false},
		{"FAIL\ta\nFAIL\tb\nFAIL\tc\nFAIL\td\nFAIL", "ok  \ta", false, false},
	} {
		dir := files(t, map[string]string{"1": c.first + "\n", "2": c.again + "\n", "n": "0", "go": `#!/bin/bash
n=$(($(<DIR/n) + 1)); echo $n >DIR/n; echo "$*" >>DIR/calls; cat DIR/$n; grep -q ^ok <(head -n 1 DIR/$n)
`})
		if err := os.Chmod(filepath.Join(dir, "go"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(root(t), ".ci/test-packages"), "-timeout", "1m", "./...", "./b")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		said, err := cmd.CombinedOutput()
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		want := "test -timeout 1m ./... ./b\n"
		if c.alone {
			want += "test -count=1 -p 1 -timeout 1m causeway/a\n"
		}
		if (err == nil) != c.green || string(calls) != want || strings.Contains(string(said), "passed alone: causeway/a") != (c.alone && c.green) {
			t.Errorf("%q, then %q: %v, go was called by\n%s, said\n%s", c.first, c.again, err, calls, said)
		}
	}
}
