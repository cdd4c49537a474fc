// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"causeway/lcore"
)

// An output is where a capture goes: one file after the other.
type output interface {
	next() (io.Writer, error)
	room(size int64) bool // in a file that is so large
	names() []string
	close() error
}

// single is one writer, of the caller's.
type single struct{ w io.Writer }

func (s *single) next() (io.Writer, error) { return s.w, nil }
func (s *single) room(int64) bool          { return true }
func (s *single) names() []string          { return nil }
func (s *single) close() error             { return nil }

// A Ring keeps the last Files files of about Size bytes each; Files 0 is one file without end.
type Ring struct {
	Files int
	Size  int64
}

// WriteFiles captures as Write does, to a file, or to a ring of files name-00001.pcapng and so on, of which the oldest
// is deleted when there are too many. Others may not read what is in them.
func WriteFiles(ctx context.Context, h Watcher, f lcore.Filter, path string, r Ring, l Limits) (Result, error) {
	if r.Files < 0 || r.Files > 0 && r.Size < 1<<16 {
		return Result{}, fmt.Errorf("capture: a ring of %d files of %d bytes; give at least one file and 65536 bytes", r.Files, r.Size)
	}
	return write(ctx, h, f, &files{path: path, ring: r}, l)
}

type files struct {
	path string
	ring Ring
	n    int
	file *os.File
	left []string
}

func (o *files) next() (io.Writer, error) {
	if err := o.close(); err != nil {
		return nil, err
	}
	name := o.path
	if o.n++; o.ring.Files > 0 {
		extension := filepath.Ext(o.path)
		name = fmt.Sprintf("%s-%05d%s", strings.TrimSuffix(o.path, extension), o.n, extension)
	}
	var err error
	if o.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, err
	}
	o.left = append(o.left, name)
	if o.ring.Files > 0 && len(o.left) > o.ring.Files {
		err = os.Remove(o.left[0])
		o.left = o.left[1:]
	}
	return o.file, err
}

func (o *files) room(size int64) bool { return o.ring.Files == 0 || size < o.ring.Size }
func (o *files) names() []string      { return o.left }

func (o *files) close() error {
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	o.file = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
