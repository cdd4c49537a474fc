// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// pastCommit is a commit of the history.
type pastCommit struct {
	subject, body string
	lines         int // added and removed, of all text files; a renamed file counts only with what changed in it
}

// trailer matches a line that names people, and gives no reason for the change.
var trailer = regexp.MustCompile(`(?m)^[A-Z][A-Za-z-]*-[Bb]y: .*$`)

// saysWhy reports whether the commit keeps the rule of CONTRIBUTING.md: more than 100 changed lines need a body.
func (c pastCommit) saysWhy() bool {
	return c.lines <= 100 || strings.TrimSpace(trailer.ReplaceAllString(c.body, "")) != ""
}

// logFormat separates commits by 0x01; subject, body and the lines of --numstat by 0x02. A commit message has neither.
const logFormat = "--format=%x01%h %s%x02%b%x02"

// readLog returns the commits that git log --numstat has written with logFormat.
func readLog(text string) (all []pastCommit, err error) {
	for _, entry := range strings.Split(text, "\x01")[1:] {
		parts := strings.Split(entry, "\x02")
		if len(parts) != 3 {
			return nil, fmt.Errorf("git log: %d parts in %q", len(parts), entry)
		}
		c := pastCommit{subject: parts[0], body: parts[1]}
		for line := range strings.Lines(parts[2]) {
			for _, number := range strings.SplitN(line, "\t", 3)[:min(2, strings.Count(line, "\t"))] {
				n, _ := strconv.Atoi(number) // of a binary file it is "-"
				c.lines += n
			}
		}
		all = append(all, c)
	}
	return all, nil
}

func TestReadLog(t *testing.T) {
	all, err := readLog("\x01a1 small\x02\x02\n\n60\t40\ta.go\n-\t-\tb.png\n\x01a2 large\x02\x02\n\n60\t41\ta\tb.go\n" +
		"\x01a3 signed\x02Signed-off-by: A <a@b>\n\x02\n\n101\t0\ta.go\n\x01a4 why\x02Because.\n\x02\n\n101\t0\ta.go\n\x01a5 empty\x02\x02\n")
	if err != nil || len(all) != 5 {
		t.Fatalf("%d commits, %v", len(all), err)
	}
	for i, want := range []pastCommit{{"a1 small", "", 100}, {"a2 large", "", 101}, {"a3 signed", "Signed-off-by: A <a@b>\n", 101},
		{"a4 why", "Because.\n", 101}, {"a5 empty", "", 0}} {
		if all[i] != want {
			t.Errorf("%+v; want %+v", all[i], want)
		}
		if right := i != 1 && i != 2; all[i].saysWhy() != right {
			t.Errorf("%s: says why: %v", want.subject, !right)
		}
	}
}

// TestCommitsSayWhy checks that each commit of more than 100 changed lines has a body, of those made since this file
// was added to the tree. Merges are not checked, because the commits that they merge are.
func TestCommitsSayWhy(t *testing.T) {
	dir := root(t)
	if err := syscall.Access(filepath.Join(dir, ".git"), 0); err != nil { // os.Stat would be noted: see TestTopLevel
		t.Skip("there is no .git: this tree has no history to check, as one from a tarball")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing; install it to check the history")
	}
	_, _ = os.Stat(filepath.Join(dir, ".git", "logs", "HEAD")) // for go test's cache: a new commit runs this test again
	git := func(args ...string) string {
		var wrong strings.Builder
		// safe.directory: root may test a user's clone.
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "safe.directory=*", "-c", "core.quotePath=true"}, args...)...)
		cmd.Stderr = &wrong
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, wrong.String())
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	if git("rev-parse", "--is-shallow-repository") == "true" {
		t.Skip("the clone is shallow: git fetch --unshallow gets the history")
	}
	first, _, _ := strings.Cut(git("log", "--diff-filter=A", "--format=%H", "--", "app/causeway/tree_commits_test.go"), "\n")
	if first == "" {
		t.Skip("the commit that brings this rule is not in the history yet")
	}
	all, err := readLog(git("log", "--no-merges", "--ancestry-path", "--find-renames", "--numstat", logFormat, first+"..HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if !c.saysWhy() {
			t.Errorf("%s: %d changed lines and no body. A later reader of the history sees what changed, but not why: "+
				"say that in the commit's body", c.subject, c.lines)
		}
	}
	t.Logf("%d commits since %.12s", len(all), first)
}
