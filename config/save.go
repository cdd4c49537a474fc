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
)

// origin is the file that a configuration was loaded from, as it was then.
type origin struct {
	path  string
	sum   [sha256.Size]byte
	lines map[string]int // of keys, by paths as of scanLines
	text  []byte         // to be read again, with what a fleet shares
}

// At names the place of a key such as "ib.port" in the file, to begin a message with: "config: bridge.toml:5". A key
// that is not there has the file's.
func (c *Config) At(key string) string {
	if n, ok := c.origin.lines[key]; ok {
		return fmt.Sprintf("config: %s:%d", c.origin.path, n)
	}
	return "config: " + c.origin.path
}

// savedHead begins a file that was saved.
const savedHead = "# Saved by \"write\" of Causeway's console. The file before, with its comments, is beside this one, with the ending %s.\n\n"

// BackupEnding is the ending of the file that Save keeps.
const BackupEnding = ".bak"

// Save writes the configuration to the file that it was loaded from, as little of it as is different (edited), with the same
// permissions, keeps that file under another name, and returns the configuration as loaded from the new one. A file that somebody has changed meanwhile is
// left as it is.
func (c *Config) Save() (*Config, error) {
	fail := func(err error) (*Config, error) { return nil, fmt.Errorf("config: save: %w", err) }
	if c.origin.path == "" {
		return fail(errors.New("the configuration is from no file"))
	}
	path, err := filepath.EvalSymlinks(c.origin.path)
	if err != nil {
		return fail(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return fail(err)
	}
	if sha256.Sum256(old) != c.origin.sum {
		return fail(fmt.Errorf("%s has changed since the bridge has read it: nothing was written; reload check shows the differences", path))
	}
	text, kept := edited(path, old, c)
	if !kept {
		text = []byte(fmt.Sprintf(savedHead, BackupEnding) + c.TOML(true))
	}
	if again, err := Parse(path, text); err != nil || len(Diff(c, again)) > 0 {
		return fail(errors.Join(errors.New("the file would not mean the same: nothing was written"), err))
	}
	if err := store(path, old, text); err != nil {
		return fail(unwritable(path, c.origin.sum, text, err))
	}
	return Load(c.origin.path)
}

// store replaces a file, and keeps what it was under another name.
func store(path string, old, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := replace(path+BackupEnding, old, info); err != nil {
		return err
	}
	return replace(path, text, info)
}

// replace writes a file as a whole or not at all, with the permissions and the owner of another.
func replace(path string, data []byte, like fs.FileInfo) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(like.Mode().Perm()))
	if s, ok := like.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Geteuid() || int(s.Gid) != os.Getegid()) {
		err = errors.Join(err, f.Chown(int(s.Uid), int(s.Gid)))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
