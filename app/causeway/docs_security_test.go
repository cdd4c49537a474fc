// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest matches a test as docs/security.md and docs/faults.md name it: its folder, a dot, and the function.
var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`")

// TestDocsProofs checks that the tests exist that these documents name, and that each row of their tables names one.
func TestDocsProofs(t *testing.T) {
	for file, least := range map[string]int{"security.md": 50, "faults.md": 50} {
		text, err := os.ReadFile(filepath.Join(root(t), "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n += proofs(t, file, line)
		}
		if n < least {
			t.Errorf("%s: only %d tests are named", file, n)
		}
	}
}

// proofs returns how many tests a line names.
func proofs(t *testing.T, file, line string) int {
	t.Helper()
	named := namedTest.FindAllStringSubmatch(line, -1)
	row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| attempt") && !strings.HasPrefix(line, "| fault |")
	if cells := strings.Split(line, "|"); row && (len(named) == 0 || len(named) != strings.Count(cells[3], "`")/2) {
		t.Errorf("%s: a row must name its tests as `folder.TestName`: %s", file, line)
	}
	for _, m := range named {
		if !hasTest(t, filepath.Join(root(t), m[1]), m[2]) {
			t.Errorf("%s: %s has no %s", file, m[1], m[2])
		}
	}
	return len(named)
}

// hasTest reports whether a folder has a test.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
