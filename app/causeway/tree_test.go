// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tests of tree*_test.go keep the tree as it was designed: which files lie where, which package imports which, how
// large files and functions are. A failure says why its rule is there.

// topLevel is everything that may lie at the root.
var topLevel = strings.Fields(`app config dpdk fleet ibside lcore perf tables docker docs packaging
	go.mod go.sum Makefile README.md LICENSE CHANGELOG.md CONTRIBUTING.md
	.gitignore .golangci.yml .clang-format .ci .github .git bin`)

// root returns the module's root folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod in this folder or above it")
	return ""
}

// TestTopLevel lists the root by a command: had it read the folder, go test would test this package again whenever Git has
// touched .git. That the root has not changed is what the time of its last change says.
func TestTopLevel(t *testing.T) {
	if _, err := os.Stat(root(t)); err != nil {
		t.Fatal(err)
	}
	names, err := exec.Command("ls", "-A", root(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(names)) {
		if name = strings.TrimSuffix(name, "\n"); !slices.Contains(topLevel, name) {
			t.Errorf("%s lies at the root. The root is the map of the project: what is new belongs into one of its folders, "+
				"or, if it is a new part of the bridge, into topLevel in this test", name)
		}
	}
}

// source is one file of the project's own code.
type source struct {
	path string // relative to the root
	text string
}

// sources returns the files with one of the extensions, without testdata and what is generated.
func sources(t *testing.T, extensions ...string) []source {
	t.Helper()
	dir := root(t)
	var out []source
	read := func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "testdata":
			return fs.SkipDir
		case e.IsDir() || !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if s := (source{rel, string(data)}); !s.generated() {
			out = append(out, s)
		}
		return nil
	}
	for _, top := range topLevel {
		if slices.Contains([]string{".git", "bin"}, top) {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(dir, top), read); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no file with %v was found: this test looks in the wrong place", extensions)
	}
	return out
}

// generated reports whether a file says, in the form that Go's tools know, that a program wrote it.
func (s source) generated() bool {
	for line := range strings.Lines(s.text) {
		if strings.HasPrefix(line, "// Code generated ") && strings.HasSuffix(strings.TrimSpace(line), " DO NOT EDIT.") {
			return true
		}
		if !strings.HasPrefix(line, "//") && strings.TrimSpace(line) != "" {
			return false
		}
	}
	return false
}

// isKernelModule reports whether a file is part of the guests' kernel, and has the kernel's licence and style.
func (s source) isKernelModule() bool {
	return strings.HasPrefix(s.path, "app/e2e/guest/shca/") || strings.HasPrefix(s.path, "app/e2e/guest/kernel/")
}

func TestLicenceLines(t *testing.T) {
	for _, s := range sources(t, ".go", ".c", ".h", ".def", ".S", ".s") {
		licence := "Apache-2.0"
		if s.isKernelModule() {
			licence = "GPL-2.0 OR BSD-3-Clause"
		}
		first, _, _ := strings.Cut(s.text, "\n")
		if !strings.Contains(first, "SPDX-License-Identifier: "+licence) {
			t.Errorf("%s: its first line is not // SPDX-License-Identifier: %s. A file that is copied elsewhere must carry "+
				"its licence with it", s.path, licence)
		}
	}
}
