// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unsaved is a configuration that the bridge may not write to its file: it need not be able to change what it is told
// to do, and as a service it is not. Who may write the file can Store it.
type Unsaved struct {
	Path string            `json:"path"` // without symbolic links
	Sum  [sha256.Size]byte `json:"sum"`  // of the file that the bridge has read
	Text []byte            `json:"text"` // of the new one
	Why  string            `json:"why"`  // the bridge may not write
}

// Error says how to save the configuration.
func (u *Unsaved) Error() string {
	return fmt.Sprintf("the bridge may not write to %s (%s); on its machine: sudo causeway ctl write, or sudo causeway ctl show config toml | sudo tee %s",
		filepath.Dir(u.Path), u.Why, u.Path)
}

// unwritable returns an Unsaved for an error that says that the bridge may not write.
func unwritable(path string, sum [sha256.Size]byte, text []byte, err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return err
	}
	return &Unsaved{path, sum, text, at.Err.Error()}
}

// Store writes the file, as Save does. The bridge named it, and who stores may be root: so it replaces nothing but the
// configuration that the bridge has read, by another configuration, and only in a folder that nobody else can make
// another meanwhile.
func (u *Unsaved) Store() error {
	path, err := filepath.EvalSymlinks(u.Path)
	switch {
	case err != nil:
		return err
	case path != u.Path || !filepath.IsAbs(path):
		return fmt.Errorf("%s is not the path of a file, but leads to %s", u.Path, path)
	}
	if err := isOwn(path); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if sha256.Sum256(old) != u.Sum {
		return fmt.Errorf("%s is not the file that the bridge has read: nothing was written", path)
	}
	for _, text := range [][]byte{old, u.Text} {
		if _, err := Parse(path, text); err != nil {
			return fmt.Errorf("nothing was written: %w", err)
		}
	}
	return store(path, old, u.Text)
}

// isOwn reports why others than root and this user could make a path another: they may write to a folder on it, where
// no sticky bit keeps them from what is not theirs.
func isOwn(path string) error {
	for dir := path; dir != "/"; {
		dir = filepath.Dir(dir)
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok || s.Uid != 0 && int(s.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("others than this user may write to %s: nothing was written", dir)
		}
	}
	return nil
}
