// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// anothers makes a file another user's where this one may, with permissions that are not the usual ones, and returns
// the owner.
func anothers(t *testing.T, file string) (owner int) {
	t.Helper()
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if owner = os.Geteuid(); owner == 0 {
		owner = 65534
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	return owner
}

// TestSave saves a change, with the permissions of the file and a copy of it; and leaves a file that has changed.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "bridge.toml"), filepath.Join(dir, "link.toml")
	original := "# mine\n" + small + "[console]\ntoken = \"a-long-random-token\"\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write(original)
	owner := anothers(t, file)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	c, err := Load(link)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{"[[service]]\nport = 7174\n", "[[service]]\nport = 7175\n"} {
		changed, err := c.Extend(entry)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = changed.Save(); err != nil {
			t.Fatal(err)
		}
		if changes := Diff(changed, c); len(changes) > 0 {
			t.Errorf("saved, it is different: %v", changes)
		}
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != owner {
		t.Errorf("it is %d's, and was %d's", s.Uid, owner)
	}
	for name, want := range map[string]string{link: "port = 7175", file + BackupEnding: "port = 7174"} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "a-long-random-token") {
			t.Errorf("%s: %v %s", name, err, text)
		}
	}
	write(original)
	if _, err := c.Save(); err == nil || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("over another's changes: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != original {
		t.Errorf("the file is %s", text)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := parseGood(t, small).Save(); err == nil {
		t.Error("saved to no file")
	}
}

// TestEdited: a file keeps its comments, its order and its words; what came is written as one would by hand.
func TestEdited(t *testing.T) {
	const head = "# Bridge of rack 4.\n" + base + "sl_to_dscp = { }\n\n# The feed.\n[[group]]   # A\nip   = \"239.7.0.1\"\nmgid = \"ipoib\"  # the old form\nsources = [\n  # from\n  \"10.9.0.1\",\n]\n"
	file := strings.Replace(head, "sl_to_dscp = { }\n", "", 1) + "\n# The other.\n[[group]]\nip = \"239.7.0.2\"\n\n# At the end."
	c := parseGood(t, file)
	more, err := c.Extend("[[group]]\nip = \"239.7.0.3\"\n[[service]]\nport = 7175\n")
	if err != nil {
		t.Fatal(err)
	}
	added := "\n[[group]]\nip = \"239.7.0.3\"\n"
	service := "\n[[service]]\nport = 7175\n"
	for _, x := range []struct {
		name string
		to   func() (*Config, error)
		want string
	}{
		{"nothing", func() (*Config, error) { return c, nil }, file},
		{"two came", func() (*Config, error) { return more, nil },
			strings.Replace(strings.Replace(file, "ip = \"239.7.0.2\"\n", "ip = \"239.7.0.2\"\n"+added, 1), "port = 7174\n", "port = 7174\n"+service, 1)},
		{"one is gone", func() (*Config, error) { return c.WithGroups(append(c.Groups[:1:1], c.Groups[2])) },
			strings.Replace(file, "[[group]]   # A\nip   = \"239.7.0.1\"\nmgid = \"ipoib\"  # the old form\nsources = [\n  # from\n  \"10.9.0.1\",\n]\n\n", "", 1)},
		{"the last is gone", func() (*Config, error) { return c.WithGroups(c.Groups[:2]) }, strings.Replace(file, "[[group]]\nip = \"239.7.0.2\"\n\n", "", 1)},
	} {
		to, err := x.to()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := edited("f.toml", []byte(file), to); !ok || string(got) != x.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", x.name, ok, got, x.want)
		}
	}
	for name, old := range map[string]string{
		"not TOML":      "[",
		"another table": strings.Replace(file, `addresses = ["10.9.0.254/24"]`, "addresses = [\"10.9.0.254/24\"]\nttl = 9", 1),
		"in one line":   strings.Replace(file, "[[service]]\nport = 7174\n", "", 1) + "\n", // with the service as an array
	} {
		if name == "in one line" {
			old = "service = [{ port = 7174 }]\n" + old
		}
		if got, ok := edited("f.toml", []byte(old), more); ok {
			t.Errorf("%s: %s", name, got)
		}
	}
}
