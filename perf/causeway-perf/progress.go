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

// progress shows the progress of a run: on a terminal a line that is overwritten, elsewhere a line for each test,
// without escape codes. It implements harness.Progress.
type progress struct {
	file     *os.File
	terminal bool
	begun    time.Time
	where    string // case
	test     string
	last     string // trial
	drawn    time.Time
}

func newProgress(f *os.File, plain bool) *progress {
	return &progress{file: f, terminal: !plain && term.IsTerminal(int(f.Fd())), begun: time.Now()}
}

// Case implements harness.Progress.
func (p *progress) Case(i, n int, name string) {
	p.where, p.test, p.last = fmt.Sprintf("%d/%d %s", i, n, name), "", ""
	if !p.terminal {
		fmt.Fprintf(p.file, "%s  %s\n", p.elapsed(), p.where)
	}
}

// Test implements harness.Progress.
func (p *progress) Test(name string) {
	p.test, p.last = name, ""
	if !p.terminal {
		fmt.Fprintf(p.file, "%s    %s\n", p.elapsed(), name)
	}
	p.draw(0, true)
}

// Trial implements harness.Progress.
func (p *progress) Trial(what string, s trial.Step) {
	p.last = fmt.Sprintf("%.3f Mpps: %s", s.PPS/1e6, s.Verdict)
	if what != p.test {
		p.last = what + " " + p.last
	}
	if s.Loss > 0 {
		p.last += fmt.Sprintf(" %.2g %%", s.Loss*100)
	}
	p.draw(0, true)
}

// Done implements harness.Progress.
func (p *progress) Done(part float64) { p.draw(part, false) }

func (p *progress) elapsed() string { return time.Since(p.begun).Truncate(time.Second).String() }

// draw draws the line, at most ten times a second unless something has changed: drawing may take CPU time from the
// measurement.
func (p *progress) draw(done float64, changed bool) {
	if !p.terminal || !changed && time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	columns, _, err := term.GetSize(int(p.file.Fd()))
	if err != nil || columns < 20 {
		columns = 80
	}
	fmt.Fprintf(p.file, "\r\033[K%s", progressLine(columns-1, done, p.elapsed(), p.where, p.test, p.last))
}

// progressLine is a bar and texts, in that many columns.
func progressLine(columns int, done float64, parts ...string) string {
	const width = 16
	full := int(min(max(done, 0), 1) * width)
	line := strings.Repeat("█", full) + strings.Repeat("░", width-full)
	for _, s := range parts {
		if s != "" {
			line += "  " + s
		}
	}
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(0, columns-1)]) + "…"
}

// clear clears the line.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.file, "\r\033[K")
	}
}
