// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnwritable checks what is said where the bridge may not write its file.
func TestUnwritable(t *testing.T) {
	for errno, want := range map[error]string{
		unix.EROFS:  "the bridge may not write to /etc/causeway (read-only file system); on its machine: sudo causeway ctl write, or sudo causeway ctl show config toml | sudo tee /etc/causeway/b.toml",
		unix.EACCES: "the bridge may not write to /etc/causeway (permission denied); on its machine: sudo causeway ctl write, or sudo causeway ctl show config toml | sudo tee /etc/causeway/b.toml",
		unix.ENOSPC: "open /etc/causeway/.b.toml-1: no space left on device",
	} {
		if got := unwritable("/etc/causeway/b.toml", [32]byte{}, nil, &fs.PathError{Op: "open", Path: "/etc/causeway/.b.toml-1", Err: errno}); got.Error() != want {
			t.Errorf("%v", got)
		}
	}
}

// TestStore checks that what the bridge may not save replaces its configuration, and nothing else.
func TestStore(t *testing.T) {
	const changed = small + "[[service]]\nport = 7174\n"
	for name, c := range map[string]struct {
		old   string
		spoil func(t *testing.T, u *Unsaved)
		want  string // "": it is stored
	}{
		"a configuration":                 {small, func(*testing.T, *Unsaved) {}, ""},
		"one that has changed":            {small, func(_ *testing.T, u *Unsaved) { u.Sum[0]++ }, "is not the file that the bridge has read"},
		"another file":                    {"root:x:0:0\n", func(*testing.T, *Unsaved) {}, "nothing was written"},
		"a text that is no configuration": {small, func(_ *testing.T, u *Unsaved) { u.Text = []byte("root:x:0:0\n") }, "nothing was written"},
		"no file":                         {small, func(_ *testing.T, u *Unsaved) { u.Path += "x" }, "no such file"},
		"a link": {small, func(t *testing.T, u *Unsaved) {
			link := u.Path + "-link"
			if err := os.Symlink(u.Path, link); err != nil {
				t.Fatal(err)
			}
			u.Path = link
		}, "is not the path of a file"},
		"a folder of others": {small, func(t *testing.T, u *Unsaved) {
			if err := os.Chmod(filepath.Dir(u.Path), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "others than this user may write to"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "bridge.toml")
			if err := os.WriteFile(path, []byte(c.old), 0o640); err != nil {
				t.Fatal(err)
			}
			u := &Unsaved{Path: path, Sum: sha256.Sum256([]byte(c.old)), Text: []byte(changed)}
			c.spoil(t, u)
			err = u.Store()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			want := c.old
			if c.want == "" {
				want = changed
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%v %s", err, text)
			}
			if text, err := os.ReadFile(path + BackupEnding); (err == nil) != (c.want == "") || err == nil && string(text) != c.old {
				t.Errorf("%v %s", err, text)
			}
		})
	}
}
