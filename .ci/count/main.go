// SPDX-License-Identifier: Apache-2.0

// Count reads what go test -json prints, shows what a person wants to read of it, and counts tests: a line for each
// package (with -v for each test, as it ends), all that a failed test printed, and why a test was skipped.
//
//	go test -json ./... | count [-v] [-name WORD] [-there FILE] [-tally FILE]
//	count … FILE…
//	count -sum FILE
//
// Files are read at the same time. The exit code is 1 when something failed or nothing passed; with -there, a file of
// names, also when one of these was skipped or did not end. With -tally the numbers are added to a file, which -sum prints and judges.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// event is a line of test2json (go doc cmd/test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counts are numbers of top-level tests.
type counts struct{ passed, failed, skipped int }

func (c *counts) add(o counts) {
	c.passed, c.failed, c.skipped = c.passed+o.passed, c.failed+o.failed, c.skipped+o.skipped
}

type reader struct {
	verbose bool
	out     io.Writer
	printed map[string]*strings.Builder // by package and test: what it printed so far
	running map[string]time.Time        // by package and test: since when
	ended   map[string]bool             // top-level tests that were not skipped, by name
	red     map[string]bool             // packages of which a test failed
	skips   []string
	counts
}

// quiet is after how long without a line it says what is running.
const quiet = 5 * time.Second

// read takes the lines of all inputs, each as it comes.
func (r *reader) read(inputs ...io.Reader) error {
	lines := make(chan string)
	var all errgroup.Group
	for _, in := range inputs {
		all.Go(func() error {
			from := bufio.NewReader(in)
			for {
				line, err := from.ReadString('\n')
				if line != "" {
					lines <- line
				}
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
			}
		})
	}
	failed := make(chan error, 1)
	go func() {
		failed <- all.Wait()
		close(lines)
	}()
	silent := time.NewTicker(quiet)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return <-failed
			}
			if r.line(line) {
				silent.Reset(quiet)
			}
		case <-silent.C:
			r.sayWhatRuns()
		}
	}
}

// line takes one, and says whether something was printed for it.
func (r *reader) line(line string) bool {
	out := &counted{Writer: r.out}
	r.out = out
	defer func() { r.out = out.Writer }()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil { // a tool's own words
		fmt.Fprint(r.out, line)
	} else {
		r.take(e)
	}
	return out.n > 0
}

// counted is a writer that knows how much was written.
type counted struct {
	io.Writer
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.Writer.Write(b)
}

func (r *reader) sayWhatRuns() {
	var all []string
	for key, since := range r.running {
		all = append(all, fmt.Sprintf("%s (%.0f s)", strings.TrimPrefix(key, "causeway/"), time.Since(since).Seconds()))
	}
	slices.Sort(all)
	if len(all) == 0 {
		all = []string{"the compiler"}
	}
	fmt.Fprintf(r.out, "running: %s\n", strings.Join(all, ", "))
}

func (r *reader) take(e event) {
	test, _, isPart := strings.Cut(e.Test, "/")
	key := e.Package + " " + test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "fail" && e.Test == "" && !r.red[e.Package]: // it does not compile, or its program died or failed after its tests
		r.failed++
	case e.Action == "output" && test == "":
		if e.Output != "PASS\n" && e.Output != "FAIL\n" && !strings.Contains(e.Output, "[no test files]") {
			fmt.Fprint(r.out, e.Output)
		}
	case e.Action == "output":
		if r.printed[key] == nil {
			r.printed[key] = &strings.Builder{}
		}
		r.printed[key].WriteString(e.Output)
	case isPart || test == "":
	case e.Action == "run" || e.Action == "cont":
		r.running[key] = time.Now()
	case e.Action == "pause": // until those that run alone have ended
		delete(r.running, key)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		r.end(e, key)
	}
}

// end counts a top-level test.
func (r *reader) end(e event, key string) {
	printed := ""
	if b := r.printed[key]; b != nil {
		printed = b.String()
	}
	delete(r.printed, key)
	delete(r.running, key)
	r.ended[e.Test] = e.Action != "skip"
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.red[e.Package] = true
		fmt.Fprintf(r.out, "%s\n%s", e.Package, printed)
	case "skip":
		r.skipped++
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(printed)))
	}
	if r.verbose {
		fmt.Fprintf(r.out, "%s: %s: %s (%.1f s)\n", e.Package, e.Action, e.Test, e.Elapsed)
	}
}

// reason is the line in which a test says why it is skipped.
func reason(printed string) string {
	for line := range strings.Lines(printed) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "it does not say why"
}

// unfinished prints what tests printed that began and did not end: their program died.
func (r *reader) unfinished() {
	for _, key := range slices.Sorted(maps.Keys(r.printed)) {
		r.failed++
		fmt.Fprintf(r.out, "%s did not end:\n%s", key, r.printed[key])
	}
}

// missing names the tests of a file, a name a line, that did not end.
func (r *reader) missing(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	return slices.DeleteFunc(strings.Fields(string(text)), func(name string) bool { return r.ended[name] }), err
}

func sum(file string, out io.Writer) (all counts, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return all, err
	}
	for line := range strings.Lines(string(text)) {
		var c counts
		var name string
		if _, err := fmt.Sscanf(line, "%s %d %d %d", &name, &c.passed, &c.failed, &c.skipped); err != nil {
			return all, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		fmt.Fprintf(out, "%-12s %5d there, %5d ran, %d skipped, %d failed\n", name, c.passed+c.failed+c.skipped, c.passed+c.failed, c.skipped, c.failed)
		all.add(c)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped)
	return all, nil
}

func run() error {
	verbose := flag.Bool("v", false, "a line for each test as it ends")
	there := flag.String("there", "", "a `file` of the tests that must run")
	tally := flag.String("tally", "", "add the numbers to this `file`")
	name := flag.String("name", "tests", "what the numbers are of, in one word")
	total := flag.String("sum", "", "print the numbers of this `file`")
	flag.Parse()
	if *total != "" {
		all, err := sum(*total, os.Stdout)
		if err == nil && (all.failed > 0 || all.passed == 0) {
			err = fmt.Errorf("%d failed, %d passed", all.failed, all.passed)
		}
		return err
	}
	r := &reader{verbose: *verbose, out: os.Stdout, printed: map[string]*strings.Builder{}, running: map[string]time.Time{},
		ended: map[string]bool{}, red: map[string]bool{}}
	inputs, err := open(flag.Args())
	if err != nil {
		return err
	}
	if err := r.read(inputs...); err != nil {
		return err
	}
	return r.finish(*name, *there, *tally)
}

// open opens files; without any it is standard input.
func open(names []string) ([]io.Reader, error) {
	if len(names) == 0 {
		return []io.Reader{os.Stdin}, nil
	}
	var all []io.Reader
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (r *reader) finish(name, there, tally string) error {
	r.unfinished()
	for _, s := range r.skips {
		fmt.Fprintf(r.out, "skipped: %s\n", s)
	}
	fmt.Fprintf(r.out, "%s: %d passed, %d failed, %d skipped\n", name, r.passed, r.failed, r.skipped)
	if tally != "" {
		f, err := os.OpenFile(tally, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "%s %d %d %d\n", name, r.passed, r.failed, r.skipped)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if there != "" {
		missing, err := r.missing(there)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return fmt.Errorf("these did not run: %s", strings.Join(missing, " "))
		}
	}
	if r.failed > 0 || r.passed == 0 {
		return fmt.Errorf("%s: %d failed, %d passed", name, r.failed, r.passed)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}
