// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one planted mistake, as list.txt describes it.
type mutant struct {
	id, file string
	pkg      string // its tests are to fail
	old, new string
	reason   string // why it may survive; "": it may not
}

// readList reads the mutants, and checks that each can be planted in a tree.
func readList(name, tree string) ([]mutant, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, block := range strings.Split(string(text), "\n\n") {
		m, err := parse(block)
		if err == nil && m != nil {
			err = m.fits(tree)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case m == nil:
			continue
		case slices.ContainsFunc(all, func(o mutant) bool { return o.id == m.id }):
			return nil, fmt.Errorf("%s: %s: two mutants have this name", name, m.id)
		}
		all = append(all, *m)
	}
	return all, nil
}

// parse reads a block; nil: it has comments only.
func parse(block string) (*mutant, error) {
	var m *mutant
	var old, new []string
	for _, line := range strings.Split(block, "\n") {
		reason, isReason := strings.CutPrefix(line, "reason: ")
		switch {
		case line == "" || line[0] == '#':
		case m == nil:
			words := strings.Fields(line)
			if len(words) < 2 || len(words) > 3 {
				return nil, fmt.Errorf("%q: write ID FILE [PACKAGE]", line)
			}
			m = &mutant{id: words[0], file: words[1], pkg: path.Dir(words[1])}
			if len(words) == 3 {
				m.pkg = words[2]
			}
		case line[0] == '-':
			old = append(old, line[1:])
		case line[0] == '+':
			new = append(new, line[1:])
		case isReason:
			m.reason = reason
		default:
			return nil, fmt.Errorf("%s: %q is no line of a mutant; write -TEXT, +TEXT or reason: TEXT", m.id, line)
		}
	}
	if m == nil {
		return nil, nil
	}
	m.old, m.new = strings.Join(old, "\n"), strings.Join(new, "\n")
	return m, nil
}

// fits reports a mutant that a tree has no place for, or several.
func (m *mutant) fits(tree string) error {
	text, err := os.ReadFile(filepath.Join(tree, m.file))
	if err != nil {
		return fmt.Errorf("%s is stale: %w", m.id, err)
	}
	if n := strings.Count(string(text), m.old); m.old == "" || n != 1 {
		return fmt.Errorf("%s is stale: its old text is %d times in %s, and must be there once", m.id, n, m.file)
	}
	if m.old == m.new {
		return fmt.Errorf("%s changes nothing", m.id)
	}
	return nil
}

// plant writes the mistake into a tree, and returns what takes it back.
func (m *mutant) plant(tree string) (undo func() error, err error) {
	name := filepath.Join(tree, m.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	undo = func() error { return os.WriteFile(name, text, 0o644) }
	return undo, os.WriteFile(name, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o644)
}

// isHeader reports whether the file is one that files of other folders may include.
func (m *mutant) isHeader() bool { return path.Ext(m.file) == ".h" || path.Ext(m.file) == ".def" }
