// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A History keeps lines of sessions in a file of the user's. Without the file there is none: a session is worth more
// than its history. Sessions at the same time may share one.
type History struct {
	path  string // "": none is kept
	added int    // since it was shortened
}

// UserHistory returns the user's, where the XDG Base Directory Specification has it.
func UserHistory() *History {
	state := os.Getenv("XDG_STATE_HOME")
	if home, err := os.UserHomeDir(); !filepath.IsAbs(state) {
		if err != nil || !filepath.IsAbs(home) {
			return &History{}
		}
		state = filepath.Join(home, ".local", "state")
	}
	return &History{path: filepath.Join(state, "causeway", "history")}
}

// open opens the file. It does not follow a link, nor wait for what is no file.
func (h *History) open(flags int) (*os.File, error) {
	if h.path == "" {
		return nil, os.ErrNotExist
	}
	file, err := os.OpenFile(h.path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("console: this is not a file"), err, file.Close())
	}
	return file, nil
}

// Lines returns the last lines, the newest last, and shortens a file that has more.
func (h *History) Lines() []string {
	file, err := h.open(os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	const most = 2 * historyMost * (lineMost + 1) // no session makes a longer one
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd) // the first line may be a part
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil
	}
	all := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	if h.added = 0; len(all) > historyMost {
		all = all[len(all)-historyMost:]
		h.replace(all)
	}
	return all
}

// replace writes the file anew. Another session's line of this moment may be lost.
func (h *History) replace(all []string) {
	file, err := os.CreateTemp(filepath.Dir(h.path), ".history") // with mode 0600
	if err != nil {
		return
	}
	_, err = io.WriteString(file, strings.Join(all, "\n")+"\n")
	if err := errors.Join(err, file.Close()); err != nil || os.Rename(file.Name(), h.path) != nil {
		_ = os.Remove(file.Name()) // the file is as long as it was
	}
}

// Add adds a line.
func (h *History) Add(line string) {
	if h.path == "" || strings.ContainsAny(line, "\r\n") {
		return
	}
	if os.MkdirAll(filepath.Dir(h.path), 0o700) != nil {
		return
	}
	file, err := h.open(os.O_WRONLY | os.O_APPEND | os.O_CREATE)
	if err != nil {
		return
	}
	defer file.Close()
	if file.Chmod(0o600) != nil { // another program's may have been open to others
		return
	}
	_, _ = io.WriteString(file, line+"\n") // at once, whole
	if h.added++; h.added >= historyMost {
		h.Lines()
	}
}
