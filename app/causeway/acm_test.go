// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoSides are a node with a LID and a RoCE host, for a configuration.
const twoSides = `
[[host]]
ip = "10.9.0.2"
side = "ib"
gid = "fe80::2:c903:0:8"
lid = 8
sl = 1
[[host]]
ip = "fd09::77"
side = "roce"
[policy]
allow = ["10.9.0.0/16", "fd09::/64"]
`

// acmConfig returns a configuration with a small subnet.
func acmConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bridge.toml")
	text := "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.6/29\", \"fd09::fe/64\"]\nmtu = 4200\n[ib]\nport = \"nosuch_0:1\"\n" + twoSides
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestACM(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := try("acm", "-out", dir, "-gid", "fe80::2:c903:0:3", "-lid", "3", "-rate", "100",
		"-name", "n8", "-device", "mlx5_0:1", acmConfig(t))
	if code != exitOK || strings.Count(stdout, "\n") != 4 || strings.Count(stderr, "fd09::/64") != 1 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	bridge := " fe80::2:c903:0:3\n"
	for name, want := range map[string]string{
		"ibacm_hosts.data": "10.9.0.1" + bridge + "10.9.0.3" + bridge + "10.9.0.4" + bridge + "10.9.0.5" + bridge + "10.9.0.6" + bridge +
			"fd09::77" + bridge + "fd09::fe" + bridge,
		"ibacm_route.data": "Channel Adapter 0x0002c90300000008, base LID 8, LMC 0, 10.9.0.2\n3 : 1 : 5 : 16\n" +
			"Channel Adapter 0x0002c90300000003, base LID 3, LMC 0, causeway\n8 : 1 : 5 : 16\n",
		"ibacm_addr.cfg": "n8 mlx5_0 1 default\n",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		_, got, _ := strings.Cut(string(text), "\n") // after the comment
		if err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, want)
		}
	}
	code, stdout, stderr = try("acm", "-gid", "fe80::3", "-most", "4", acmConfig(t))
	if code != exitOK || strings.Contains(stdout, "route_preload") || strings.Contains(stdout, "10.9.0.1 ") || !strings.Contains(stdout, "\nfd09::77 fe80::3\n") ||
		!strings.HasPrefix(stdout, "==> ibacm_hosts.data <==\n") || !strings.Contains(stderr, "10.9.0.0/29") {
		t.Errorf("without a LID, with a subnet too large: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestACMTranslated checks that hosts and nodes are listed by the addresses that InfiniBand knows them by.
func TestACMTranslated(t *testing.T) {
	file := acmConfig(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more := "[[translate]]\nroce = \"10.9.0.0/30\"\nib = \"10.10.9.4/30\"\n[[translate]]\nroce = \"fd09::/64\"\nib = \"fd10::/64\"\n"
	if err := os.WriteFile(file, append(text, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := try("acm", "-gid", "fe80::3", "-lid", "3", file)
	const hosts = "\n10.9.0.4 fe80::3\n10.9.0.5 fe80::3\n10.9.0.6 fe80::3\n10.10.9.5 fe80::3\n10.10.9.7 fe80::3\nfd10::77 fe80::3\nfd10::fe fe80::3\n"
	if code != exitOK || !strings.Contains(stdout, hosts) || !strings.Contains(stdout, "LMC 0, 10.10.9.6\n") || strings.Contains(stdout, "10.9.0.2") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestACMMisused(t *testing.T) {
	file := acmConfig(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", exitUsage, "causeway acm: name the bridge's configuration, such as /etc/causeway/bridge.toml; usage: "},
		{"FILE FILE", exitUsage, `causeway acm: "FILE" is one file too many; name one configuration; usage: `},
		{"-name x FILE", exitUsage, "causeway acm: -name x needs -device, too: that node's device and port, such as -device mlx5_0:1; usage: "},
		{"-device mlx5_0:1 FILE", exitUsage, "causeway acm: -device mlx5_0:1 needs -name, too: a name for that node, such as -name node7; usage: "},
		{"FILE", exitFailed, "the bridge's GID is not known here"},
		{"-gid ff12::1 FILE", exitFailed, "is not a port's GID"},
		{"-gid fe80::3 -rate 33 FILE", exitFailed, "is not a rate"},
		{"-gid fe80::3 -lid 8 FILE", exitFailed, "LID 8 belongs to two ports"},
		{"-gid fe80::3 -name x -device mlx5_0 FILE", exitFailed, "is not a port"},
		{"-gid fe80::3 -out /nosuch FILE", exitFailed, "causeway acm: -out /nosuch: ibacm_hosts.data: no such file or directory; make that folder, or name another\n"},
	} {
		args := strings.Fields(strings.ReplaceAll("acm "+c.args, "FILE", file))
		if code, _, stderr := try(args...); code != c.code || !strings.Contains(stderr, strings.ReplaceAll(c.says, "FILE", file)) {
			t.Errorf("%s: exit code %d, %s", c.args, code, stderr)
		}
	}
}
