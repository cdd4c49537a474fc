// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cForms are what C must not contain, because the tree has one form of each thing.
var cForms = []struct {
	what    *regexp.Regexp
	instead string
	except  string // the file that may
}{
	{regexp.MustCompile(`stdatomic\.h|\b_Atomic\b|\batomic_\w+\(|\bmemory_order_|\brte_atomic\d+_|\brte_smp_|\b__sync_`),
		"use the __atomic builtins on plain types, as DPDK does: cgo and tests read the same structs, and the memory order stands at each use", ""},
	{regexp.MustCompile(`[!=]= NULL\b|\bNULL [!=]=`), "a pointer is tested by !p and p, so that one search finds all tests", ""},
	{regexp.MustCompile(`\b__builtin_expect\b`), "use likely and unlikely of rte_branch_prediction.h", ""},
	{regexp.MustCompile(`\b[a-z]+mmintrin\.h|\bimmintrin\.h|\b__x86_64__\b|\b__(SSE|AVX|AES|PCLMUL)\w*__\b`),
		"only tables/x86.h says where x86's instructions may be used: include it and test CAUSEWAY_X86, with a portable branch beside", "tables/x86.h"},
}

// hardened are the flags that each package with C needs, because its #cgo lines count for no other. They make a memory
// error end the program. _FORTIFY_SOURCE=3 would cost the packet path a tenth.
const hardened = "#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection\n"

func TestCHardened(t *testing.T) {
	for _, s := range sources(t, ".go") {
		if strings.Contains(s.text, "#cgo CFLAGS:") && strings.Count(s.text, hardened) != 1 && !strings.HasSuffix(s.path, "tree_c_test.go") {
			t.Errorf("%s: its C is not hardened: add the line %s", s.path, hardened)
		}
	}
}

func TestCForms(t *testing.T) {
	for _, s := range sources(t, ".c", ".h") {
		if s.isKernelModule() {
			continue
		}
		n := 0
		for line := range strings.Lines(s.text) {
			n++
			for _, f := range cForms {
				if found := f.what.FindString(line); found != "" && s.path != f.except {
					t.Errorf("%s:%d: %s: %s", s.path, n, found, f.instead)
				}
			}
		}
	}
}

var (
	cInclude  = regexp.MustCompile(`(?m)^#include "([^"]+)"`)
	cFunction = regexp.MustCompile(`(?m)^[a-z][\w *]*?\b(\w+)\([^;{]*\)\n\{`)
)

// cUnit is a C file with the header of the same name.
type cUnit struct {
	body, head string
}

// cUnits returns the C files of each folder by their names without extension.
func cUnits(files []source) map[string]map[string]*cUnit {
	folders := map[string]map[string]*cUnit{}
	for _, s := range files {
		dir, name := path.Dir(s.path), strings.TrimSuffix(path.Base(s.path), ".c")
		if !strings.HasSuffix(s.path, ".c") {
			continue
		}
		if folders[dir] == nil {
			folders[dir] = map[string]*cUnit{}
		}
		folders[dir][name] = &cUnit{body: s.text}
	}
	for _, s := range files {
		if u := folders[path.Dir(s.path)][strings.TrimSuffix(path.Base(s.path), ".h")]; u != nil && strings.HasSuffix(s.path, ".h") {
			u.head = s.text
		}
	}
	return folders
}

// uses returns which others of its folder each C file uses: whose header it includes, or whose functions it calls.
func uses(units map[string]*cUnit) map[string][]string {
	owner := map[string]string{}
	for name, u := range units {
		for _, f := range cFunction.FindAllStringSubmatch(u.body, -1) {
			if !strings.HasPrefix(f[0], "static ") {
				owner[f[1]] = name
			}
		}
	}
	word := regexp.MustCompile(`\b\w+\b`)
	out := map[string][]string{}
	for name, u := range units {
		used := map[string]bool{}
		for _, m := range cInclude.FindAllStringSubmatch(u.head+u.body, -1) {
			if other := strings.TrimSuffix(m[1], ".h"); units[other] != nil {
				used[other] = true
			}
		}
		for _, w := range word.FindAllString(withoutComments(u.body), -1) {
			used[owner[w]] = true
		}
		delete(used, "")
		delete(used, name)
		out[name] = slices.Sorted(maps.Keys(used))
	}
	return out
}

var cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

func withoutComments(text string) string { return cComment.ReplaceAllString(text, "") }

// circle returns the files of a dependency cycle, first and last the same, or nil.
func circle(graph map[string][]string) []string {
	done := map[string]bool{}
	var visit func(way []string, at string) []string
	visit = func(way []string, at string) []string {
		if i := slices.Index(way, at); i >= 0 {
			return append(slices.Clone(way[i:]), at)
		}
		if done[at] {
			return nil
		}
		for _, next := range graph[at] {
			if c := visit(append(slices.Clone(way), at), next); c != nil {
				return c
			}
		}
		done[at] = true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(graph)) {
		if c := visit(nil, name); c != nil {
			return c
		}
	}
	return nil
}

func TestCCircles(t *testing.T) {
	for dir, units := range cUnits(sources(t, ".c", ".h")) {
		if c := circle(uses(units)); c != nil {
			t.Errorf("%s: the C files use one another in a circle: %s. Files are layers: what both need belongs into a third one, or "+
				"into the one that is used", dir, strings.Join(c, " → "))
		}
	}
}

func TestCircleScan(t *testing.T) {
	unit := func(body, head string) *cUnit { return &cUnit{body, head} }
	for _, c := range []struct {
		what  string
		units map[string]*cUnit
		want  string
	}{
		{"includes", map[string]*cUnit{"a": unit(`#include "b.h"`, ""), "b": unit("", "\n#include \"a.h\"\n")}, "a b a"},
		{"calls", map[string]*cUnit{"a": unit("int f(void)\n{\n\treturn g();\n}\n", ""), "b": unit("int\ng(void)\n{\n}\nint g(void)\n{\n\treturn f();\n}\n", "")}, "a b a"},
		{"one way", map[string]*cUnit{"a": unit("#include \"b.h\"\nint f(void)\n{\n\treturn g();\n}\n", ""), "b": unit("int g(void)\n{\n\treturn 0; /* f */\n}\n", "")}, ""},
		{"static functions of one name", map[string]*cUnit{"a": unit("static int f(void)\n{\n}\nint g(void)\n{\n}\n", ""), "b": unit("static int f(void)\n{\n\treturn g();\n}\n", "")}, ""},
	} {
		if got := strings.Join(circle(uses(c.units)), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}
