// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"causeway/perf/trial"
)

// watcher shows how it goes on: one line that is written over on a terminal; elsewhere a line for each test, and not one
// escape code. It implements harness.Watcher.
type watcher struct {
	file     *os.File
	terminal bool
	begun    time.Time
	where    string // case
	test     string
	last     string // trial
	drawn    time.Time
}

func newWatcher(f *os.File, plain bool) *watcher {
	return &watcher{file: f, terminal: !plain && term.IsTerminal(int(f.Fd())), begun: time.Now()}
}

// Case implements harness.Watcher.
func (w *watcher) Case(i, n int, name string) {
	w.where, w.test, w.last = fmt.Sprintf("%d/%d %s", i, n, name), "", ""
	if !w.terminal {
		fmt.Fprintf(w.file, "%s  %s\n", w.elapsed(), w.where)
	}
}

// Test implements harness.Watcher.
func (w *watcher) Test(name string) {
	w.test, w.last = name, ""
	if !w.terminal {
		fmt.Fprintf(w.file, "%s    %s\n", w.elapsed(), name)
	}
	w.draw(0, true)
}

// Trial implements harness.Watcher.
func (w *watcher) Trial(what string, s trial.Step) {
	w.last = fmt.Sprintf("%.3f Mpps: %s", s.PPS/1e6, s.Verdict)
	if what != w.test {
		w.last = what + " " + w.last
	}
	if s.Loss > 0 {
		w.last += fmt.Sprintf(" %.2g %%", s.Loss*100)
	}
	w.draw(0, true)
}

// Progress implements harness.Watcher.
func (w *watcher) Progress(done float64) { w.draw(done, false) }

func (w *watcher) elapsed() string { return time.Since(w.begun).Truncate(time.Second).String() }

// draw draws the line, at most ten times a second unless something has changed: on a small machine a terminal takes
// time from what is measured.
func (w *watcher) draw(done float64, changed bool) {
	if !w.terminal || !changed && time.Since(w.drawn) < 100*time.Millisecond {
		return
	}
	w.drawn = time.Now()
	columns, _, err := term.GetSize(int(w.file.Fd()))
	if err != nil || columns < 20 {
		columns = 80
	}
	fmt.Fprintf(w.file, "\r\033[K%s", progressLine(columns-1, done, w.elapsed(), w.where, w.test, w.last))
}

// progressLine is a bar and what is known, in so many columns.
func progressLine(columns int, done float64, parts ...string) string {
	const width = 16
	full := int(min(max(done, 0), 1) * width)
	line := strings.Repeat("█", full) + strings.Repeat("░", width-full)
	for _, p := range parts {
		if p != "" {
			line += "  " + p
		}
	}
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(0, columns-1)]) + "…"
}

// done takes the line away.
func (w *watcher) done() {
	if w.terminal {
		fmt.Fprint(w.file, "\r\033[K")
	}
}
