// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong in a file.
type Problem struct {
	File string
	Line int    // from 1; 0: the file as a whole
	Who  string // the table or entry, such as "group 239.1.2.3"; may be empty
	What string // the value, and what to write instead
}

// Error returns the problem as one line.
func (p Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Who == "" {
		return fmt.Sprintf("config: %s: %s", where, p.What)
	}
	return fmt.Sprintf("config: %s: %s: %s", where, p.Who, p.What)
}

// Problems is every problem of a file, in line order. Parse and Load return it as their error.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// sortByLine keeps problems of one line in the order in which they were found.
func (ps Problems) sortByLine() {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}
