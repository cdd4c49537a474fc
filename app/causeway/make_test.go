// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fakeGo is a go that builds until make has said that it does, for 40 seconds at most.
const fakeGo = `#!/bin/bash
case "$1" in
env) echo go1.99 ;;
build) for (( i = 0; i < 800; i++ )); do grep -q compiling DIR/out && exit 0; sleep .05; done; exit 1 ;;
esac
`

// TestMakeSays checks that make says what it builds when that takes long: a silent minute looks like a hang.
func TestMakeSays(t *testing.T) {
	dir := files(t, map[string]string{"go": fakeGo, "out": ""})
	if err := os.Chmod(filepath.Join(dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(filepath.Join(dir, "out"), os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("make", "-C", root(t), "PATIENCE=0.1", "build")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		t.Errorf("%v; make said\n%s", err, said)
	}
}
