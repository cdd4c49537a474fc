// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// terminalOf returns the terminal that a writer is; nil: none that can be drawn on.
func terminalOf(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return f
}

// A screen is a terminal that ends with a table. What is logged goes above it.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	lines int // of the table
}

// erase removes the table. The caller holds the lock.
func (s *screen) erase() {
	const up, clear = "\033[%dA", "\033[J" // to the end of the screen
	if s.lines > 0 {
		fmt.Fprintf(s.out, up+clear, s.lines)
	}
	s.lines = 0
}

// table draws the table over the last one.
func (s *screen) table(text string, lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprint(s.out, text)
	s.lines = lines
}

// keep has the table stay: what follows goes below it.
func (s *screen) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = 0
}

// Write logs a line.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	return s.out.Write(b)
}
