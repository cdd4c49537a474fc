// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// here is this machine.
func here(t *testing.T) Sources {
	t.Helper()
	sys, done, err := OpenSysfs()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return Sources{Sys: sys, Proc: os.DirFS("/proc"), Root: os.DirFS("/"), Kernel: Live{Proc: os.DirFS("/proc/sys")}, Process: Here{}}
}

// TestHere looks at this machine, and wants of it what Linux says itself elsewhere.
func TestHere(t *testing.T) {
	m := here(t)
	found := Examine(nil, m)
	var b bytes.Buffer
	if err := found.WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	t.Logf("without a configuration:\n%s", &b)
	for _, g := range groups(nil, m) {
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Group == g.name }) && !g.anybody {
			t.Errorf("%s is looked at without a configuration", g.name)
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)); n > 112 && !strings.Contains(line, "fix: ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if n := newMemoryProbe(nil, m).available(); n < 16 {
		t.Errorf("%d MiB of memory are available", n)
	}
	online := newCPUProbe(nil, m).online()
	if got := m.Process.CPUs(); len(got) == 0 || len(without(got, online)) > 0 {
		t.Errorf("this process may run on CPUs %v, online are %v", got, online)
	}
	if err := m.Process.Access("/dev/null"); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	if err := m.Process.Access("/dev/nosuch"); !os.IsNotExist(err) {
		t.Errorf("/dev/nosuch: %v", err)
	}
	limits := newLimitsProbe(nil, m)
	if os.Geteuid() == 0 && !limits.has(10) { // CAP_NET_BIND_SERVICE, which even containers have
		t.Error("root has no capability")
	}
	if n := limits.limit("Max open files"); n < 8 || n > 1<<31 {
		t.Errorf("%d open files", n)
	}
	if _, err := m.Process.PFC("lo"); err == nil {
		t.Error("loopback has priorities")
	}
	if _, err := m.Process.Path("nosuch_0", 1); err == nil {
		t.Error("a device that is not there has a path")
	}
}

// TestBridgeHere looks at this machine for a bridge that it can run, and for one that it cannot.
func TestBridgeHere(t *testing.T) {
	cpu := cpuList(Here{}.CPUs()[:1])
	c := load(t, "mlx5_0:1", "fabric:", "af_packet:eth1", "ring", "[policy]", "[workers]\nlcores = ["+cpu+"]\nmemory_mib = 64\nmbufs = 2048\n[policy]")
	found := Examine(c, here(t))
	var b bytes.Buffer
	if err := found.WriteText(&b, false); err != nil || found.Errors() {
		t.Errorf("%v\n%s", err, &b)
	}
	t.Logf("with one:\n%s", &b)
	c = load(t, "af_packet:eth1", "mlx5:ffff:ff:1f.7")
	b.Reset()
	if err := Examine(c, here(t)).WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"there is no network card at ffff:ff:1f.7", "there is no RDMA port mlx5_0:1 here"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nobody says that %s", want)
		}
	}
	t.Logf("with one for cards:\n%s", &b)
}
