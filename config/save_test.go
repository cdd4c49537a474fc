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
