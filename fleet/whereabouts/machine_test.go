// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMachine: two machines differ, a machine is the same again, and a container is none.
func TestMachine(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if m := machine(root, first); m != "" {
		t.Errorf("without an id it is %q", m)
	}
	write("etc/machine-id", "uninitialized\n")
	if m := machine(root, first); m != "" {
		t.Errorf("that has none yet, it is %q", m)
	}
	write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	one := machine(root, first)
	if one == "" || machine(root, first) != one {
		t.Errorf("%q, and then %q", one, machine(root, first))
	}
	if m := machine(root, "pid:[4026532001]"); m != "" {
		t.Errorf("a container is %q", m)
	}
	write("sys/class/dmi/id/product_uuid", "4c4c4544-0000-2010-8020-80c04f202020\n")
	if m := machine(root, first); m == one || m == "" {
		t.Errorf("a copy of it is %q", m)
	}
}

// TestEndedWithoutMachine: of two places of which neither tells its machine, nobody knows whether they are one.
func TestEndedWithoutMachine(t *testing.T) {
	own := place{boot: "now", namespace: first}
	if ended, err := endedFor(own, "before/"+first+"/2/3/"); ended || err == nil {
		t.Errorf("without a machine: %t, %v", ended, err)
	}
	own.machine = "machine"
	if ended, err := endedFor(own, "before/"+first+"/2/3/machine"); !ended || err != nil {
		t.Errorf("before this machine started anew: %t, %v", ended, err)
	}
}
