// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suite is the tests of a package in a copy of the tree.
type suite struct {
	tree, pkg string
	binary    string
	env       []string
	original  [sha256.Size]byte // of the binary without a mutant
	slow      []string          // tests that come last, by name
	limit     time.Duration     // a run that takes longer hangs
}

const (
	// A test that takes longer than slowTest runs only when all others have not noticed a mutant.
	slowTest = time.Second
	// firstLimit bounds the run without a mutant. With one, a run may take twice as long as without, and leastLimit more.
	firstLimit = 20 * time.Minute
	leastLimit = time.Minute
)

// compile makes the test binary; it returns what the compiler says if it cannot.
func (s *suite) compile(flags string) (complaint string, err error) {
	cmd := exec.Command("go", "test", "-c", "-o", s.binary, "./"+s.pkg)
	cmd.Dir, cmd.Env = s.tree, s.env
	if flags != "" {
		cmd.Env = append(cmd.Env, "CGO_CFLAGS="+os.Getenv("CGO_CFLAGS")+flags)
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), nil
	}
	return "", err
}

// isOriginal reports whether the binary is that without a mutant.
func (s *suite) isOriginal() (bool, error) {
	b, err := os.ReadFile(s.binary)
	return sha256.Sum256(b) == s.original, err
}

// outcome is how a run of tests has ended.
type outcome struct {
	passed, hung bool
	output       string
	took         time.Duration
}

// run runs tests until one fails.
func (s *suite) run(options ...string) (outcome, error) {
	options = append([]string{"-test.v", "-test.failfast", "-test.paniconexit0", "-test.timeout", s.limit.String()}, options...)
	cmd := exec.Command(s.binary, options...)
	cmd.Dir, cmd.Env = filepath.Join(s.tree, s.pkg), s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what tests have started ends with them
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	timer := time.AfterFunc(s.limit+10*time.Second, end) // the binary's own limit says which test hangs
	err := cmd.Wait()
	late := !timer.Stop()
	end()
	o := outcome{passed: err == nil, output: out.String(), took: time.Since(began)}
	o.hung = late || strings.Contains(o.output, "panic: test timed out after")
	return o, nil
}

// runAll runs the slow tests after all others. A failure counts when the test fails again, alone: the machine may have been busy, and
// a test that waits for a thing has not got it in time.
func (s *suite) runAll() (o outcome, err error) {
	var passes []string
	var took time.Duration
	for {
		o, err = s.runBut(passes)
		o.took += took
		test := o.failed()
		if err != nil || o.passed || o.hung || test == "" {
			return o, err
		}
		again, err := s.run("-test.run", oneOf([]string{test}))
		o.took += again.took
		if err != nil || !again.passed {
			return o, err
		}
		passes, took = append(passes, test), o.took
	}
}

// runBut runs all tests but some, the slow ones last.
func (s *suite) runBut(some []string) (outcome, error) {
	first, err := s.run("-test.skip", oneOf(slices.Concat(some, s.slow)))
	if err != nil || !first.passed || len(s.slow) == 0 {
		return first, err
	}
	then, err := s.run("-test.run", oneOf(s.slow), "-test.skip", oneOf(some))
	then.took += first.took
	return then, err
}

// oneOf is the pattern of tests by name.
func oneOf(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

var ended = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\S+) \(([0-9.]+)s\)`)

// learn notes from a run without a mutant which tests are slow, and how long all may take.
func (s *suite) learn(o outcome) {
	for _, test := range ended.FindAllStringSubmatch(o.output, -1) {
		if seconds, _ := strconv.ParseFloat(test[3], 64); seconds > slowTest.Seconds() {
			s.slow = append(s.slow, test[2])
		}
	}
	s.limit = (2*o.took + leastLimit).Round(time.Second)
}

var (
	began   = regexp.MustCompile(`(?m)^=== (?:RUN|CONT) +(\S+)`)
	running = regexp.MustCompile(`(?m)^\t+(Test\S+|Fuzz\S+|Example\S+) \(`)
)

// failed names the first test that has failed; "": none has, though the process may have ended.
func (o *outcome) failed() string {
	for _, test := range ended.FindAllStringSubmatch(o.output, -1) {
		if test[1] == "FAIL" {
			return test[2]
		}
	}
	return ""
}

// noticed names the test that a run has ended with: the one that has failed, or that was running when the process ended.
func (o *outcome) noticed() string {
	if test := o.failed(); test != "" {
		return test
	}
	if o.hung {
		if test := running.FindStringSubmatch(o.output); test != nil {
			return test[1] + ", which hangs"
		}
		return "it hangs"
	}
	if all := began.FindAllStringSubmatch(o.output, -1); len(all) > 0 {
		return all[len(all)-1][1] + ", which ends the process"
	}
	return "the process ends before any test"
}
