// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDeb builds the package, installs it on a fresh Debian, boots that, starts the bridge's unit, stops a worker of
// it, and removes everything again.
func TestDeb(t *testing.T) {
	t.Parallel() // it mostly waits for downloads and timers
	needs(t, "dh:debhelper", "lintian:lintian")
	deb := buildDeb(t)
	tree := copyOf(t, debian(t))
	begun := time.Now()
	install(t, tree, deb)
	t.Logf("installed in %v", time.Since(begun).Round(time.Second))
	configure(t, tree)

	m := boot(t, tree)
	must(t, "nsenter", "-t", m.leader, "-n", "sh", "-c", "ip link set lo up; "+
		"ip link add eth1 mtu 4200 type veth peer name peer1 mtu 4200; ip link set eth1 up; ip link set peer1 up")
	t.Run("not by itself", func(t *testing.T) {
		if active, enabled := m.unit("ActiveState"), m.unit("UnitFileState"); active != "inactive" || enabled != "disabled" {
			t.Errorf("the bridge was not started or enabled, but is %s and %s", active, enabled)
		}
	})
	m.must("systemctl", "start", "causeway") // returns when the bridge is ready
	ok := m.within(t, "started", (*machine).started) && m.within(t, "traffic", (*machine).traffic) &&
		m.within(t, "reload", (*machine).reload) && m.within(t, "standstill", (*machine).standstill)
	if !ok {
		t.Fatalf("the journal:\n%s", m.must("journalctl", "--no-pager", "-u", "causeway", "-n", "60"))
	}
	m.within(t, "etcd", (*machine).etcd)
	m.within(t, "removed", (*machine).removed)
}

// buildDeb builds the Debian package and checks it with lintian.
func buildDeb(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("../bin/causeway"); err != nil {
		t.Fatal("bin/causeway is not built: run make packages")
	}
	begun := time.Now()
	cmd := exec.Command("./build-deb", version(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build-deb: %v\n%s", err, tail(string(out)))
	}
	found, err := filepath.Glob("../bin/causeway_*_amd64.deb")
	if err != nil || len(found) != 1 {
		t.Fatalf("build-deb left %v", found)
	}
	t.Logf("built %s in %v", filepath.Base(found[0]), time.Since(begun).Round(time.Second))
	t.Log(must(t, "sh", "-c", "ls -sh "+found[0]+"; dpkg-deb -f "+found[0]+" Installed-Size Depends"))
	out, err := exec.Command("lintian", "--allow-root", "--fail-on", "error", found[0]).CombinedOutput()
	t.Logf("lintian: %s", out)
	if err != nil {
		t.Errorf("lintian: %v", err)
	}
	return found[0]
}

// version returns the version that the program prints.
func version(t *testing.T) string {
	t.Helper()
	first, _, _ := strings.Cut(must(t, "../bin/causeway", "version"), "\n")
	return strings.TrimPrefix(first, "causeway ")
}

// install installs the package, and what it depends on, into the tree; and a systemd, to boot it, and what docs/etcd.md uses.
func install(t *testing.T, tree, deb string) {
	t.Helper()
	must(t, "cp", deb, filepath.Join(tree, "tmp/causeway.deb"))
	must(t, "cp", "-L", "/etc/resolv.conf", filepath.Join(tree, "etc/resolv.conf"))
	inside := func(words ...string) string {
		return must(t, "chroot", append([]string{tree, "env", "DEBIAN_FRONTEND=noninteractive"}, words...)...)
	}
	inside("apt-get", "-q", "update")
	inside("apt-get", "-q", "-y", "install", "--no-install-recommends", "systemd", "systemd-sysv", "etcd-server", "etcd-client", "openssl", "/tmp/causeway.deb")
	if got := inside("causeway", "version"); !strings.Contains(got, version(t)) {
		t.Errorf("installed is\n%s", got)
	}
	if found := weaknesses(t, filepath.Join(tree, "usr/bin/causeway")); len(found) > 0 {
		t.Errorf("the package's program lacks %s", strings.Join(found, ", "))
	}
	inside("causeway", "check", "/etc/causeway/bridge.toml")
	if dead, _ := deadLinks(t, filepath.Join(tree, "usr/share/doc/causeway")); len(dead) > 0 {
		t.Errorf("links of the installed pages that lead nowhere:\n%s", strings.Join(dead, "\n"))
	}
	if user := inside("getent", "passwd", "causeway"); !strings.HasSuffix(user, "/nologin") {
		t.Errorf("the user can log in: %s", user)
	}
}

// configure makes the bridge use the software subnet, and little memory.
func configure(t *testing.T, tree string) {
	t.Helper()
	file := filepath.Join(tree, "etc/causeway/bridge.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{
		{`(?m)^port *= "mlx5_0:1"`, `port = "fabric:subnet.toml"`},
		{`(?m)^memory_mib *=.*$`, "memory_mib = 64\nmbufs = 2048"},
		{`(?m)^lcores *=.*$`, "lcores = [0]"},
		{`(?m)^allow *=.*$`, "$0\nunknown_source = \"bridge\""},
	} {
		re := regexp.MustCompile(edit[0])
		if !re.Match(text) {
			t.Fatalf("%s is not in bridge.toml", edit[0])
		}
		text = re.ReplaceAll(text, []byte(edit[1]))
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "cp", filepath.Join(tree, "usr/share/doc/causeway/examples/subnet.toml"), filepath.Join(tree, "etc/causeway/"))
	// The kernel is shared with this machine: the test must not reserve its hugepages.
	must(t, "sed", "-i", "s/^CAUSEWAY_HUGEPAGES=.*/CAUSEWAY_HUGEPAGES=0/", filepath.Join(tree, "etc/default/causeway"))
}
