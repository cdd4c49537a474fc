// SPDX-License-Identifier: Apache-2.0

// Mutants plants the mistakes of list.txt one at a time, each in a copy of the tree, and says which of them the tests of their
// packages notice. `make mutants` runs it; it exits with 1 if one survives that has no reason to, or does not compile.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	some := flag.String("some", ".", "run those whose `PATTERN`, a regular expression, is found in \"PACKAGE ID\"")
	file := flag.String("table", "", "keep the table in a `FILE`; rows of mutants that are not run stay")
	in := flag.String("in", "", "keep the copy of the tree in a `FOLDER`, and what was compiled there is not compiled again")
	check := flag.Bool("check", false, "only check that all can be planted")
	flag.Parse()
	good, err := mutants(*some, *file, *in, *check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

func mutants(some, file, in string, check bool) (good bool, err error) {
	pattern, err := regexp.Compile(some)
	if err != nil {
		return false, err
	}
	all, err := readList(".ci/mutants/list.txt", ".")
	if err != nil || check {
		return err == nil, err
	}
	if !strings.Contains(os.Getenv("CGO_CFLAGS"), "CAUSEWAY_HEADERS") {
		return false, fmt.Errorf("CGO_CFLAGS is not the Makefile's; run make mutants")
	}
	tree, err := copyTree(in)
	if in == "" {
		defer os.RemoveAll(tree)
	}
	if err != nil {
		return false, err
	}
	t := newTable(file, all)
	for _, of := range packages(all, pattern) {
		if err := testPackage(tree, of, t); err != nil {
			return false, err
		}
	}
	text, good := t.sum()
	fmt.Println(text)
	return good, nil
}

// packages returns the chosen mutants by their packages, in the order of the list, so that what a package depends on is
// compiled once.
func packages(all []mutant, pattern *regexp.Regexp) (out [][]mutant) {
	at := map[string]int{}
	for _, m := range all {
		if !pattern.MatchString(m.pkg + " " + m.id) {
			continue
		}
		i, there := at[m.pkg]
		if !there {
			i = len(out)
			at[m.pkg], out = i, append(out, nil)
		}
		out[i] = append(out[i], m)
	}
	return out
}

// copyTree copies the files that git has or would take.
func copyTree(to string) (string, error) {
	var err error
	if to == "" {
		if to, err = os.MkdirTemp("", "causeway-mutants-"); err != nil {
			return "", err
		}
	}
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return to, fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if err := copyFile(name, filepath.Join(to, name)); err != nil && !os.IsNotExist(err) { // it is deleted
			return to, err
		}
	}
	return to, nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		_ = os.Remove(to)
		if err == nil {
			err = os.Symlink(target, to)
		}
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return firstOf(err, dst.Close())
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// testPackage tests a package without a mutant, and then with each.
func testPackage(tree string, of []mutant, t *table) error {
	bin, err := os.MkdirTemp("", "causeway-mutants-tests-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	s := &suite{tree: tree, pkg: of[0].pkg, binary: filepath.Join(bin, filepath.Base(of[0].pkg)+".test"), env: os.Environ(), limit: firstLimit}
	why, err := s.unmutated()
	if err != nil {
		return err
	}
	for _, m := range of {
		r := row{id: m.id, pkg: m.pkg, result: untested, by: why}
		if why == "" {
			if r, err = s.try(&m); err != nil {
				return err
			}
		}
		if err := t.add(r); err != nil {
			return err
		}
	}
	return nil
}

// unmutated tests the package as it is, and says why its mutants cannot be run; "": they can. A failure counts when there are two
// in turn: the machine may have been busy.
func (s *suite) unmutated() (why string, err error) {
	if complaint, err := s.compile(""); err != nil || complaint != "" {
		return "without it the package does not compile: " + firstLine(complaint), err
	}
	b, err := os.ReadFile(s.binary)
	if err != nil {
		return "", err
	}
	s.original = sha256.Sum256(b)
	for range 2 {
		o, err := s.run()
		if err != nil {
			return "", err
		}
		if o.passed {
			s.learn(o)
			fmt.Printf("%s: passes without a mutant in %.1f s; %d tests come last\n", s.pkg, o.took.Seconds(), len(s.slow))
			return "", nil
		}
		why = "without it, too, fails " + o.noticed()
	}
	return why, nil
}

// try plants a mutant, tests, and takes it back.
func (s *suite) try(m *mutant) (r row, err error) {
	undo, err := m.plant(s.tree)
	if err != nil {
		return r, err
	}
	defer func() { err = firstOf(err, undo()) }()
	flags := ""
	if m.isHeader() { // as the Makefile's hash of headers, so that all that may include it is compiled
		flags = fmt.Sprintf(" -DCAUSEWAY_MUTANT=0x%x", sha256.Sum256([]byte(m.id)))[:32]
	}
	r = row{id: m.id, pkg: m.pkg}
	complaint, err := s.compile(flags)
	if err != nil || complaint != "" {
		r.result, r.by = broken, firstLine(complaint)
		return r, err
	}
	if same, err := s.isOriginal(); err != nil || same {
		r.result, r.by = broken, "it compiles to the same program"
		return r, err
	}
	o, err := s.runAll()
	r.seconds = o.took.Seconds()
	switch {
	case !o.passed && o.hung:
		r.result, r.by = hangs, o.noticed()
	case !o.passed:
		r.result, r.by = caught, o.noticed()
	case m.reason != "":
		r.result, r.by = allowed, m.reason
	default:
		r.result = survives
	}
	return r, err
}

// firstLine returns the first line of a compiler's complaint that says something.
func firstLine(text string) string {
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasSuffix(line, ":") {
			return line
		}
	}
	return ""
}
