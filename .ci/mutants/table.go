// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

// What becomes of a mutant.
const (
	caught   = "caught"
	hangs    = "hangs" // its tests do: caught, too
	survives = "survives"
	allowed  = "allowed" // survives with a reason
	broken   = "does not compile"
	untested = "not run" // its package fails without it
)

// row is a line of the table. A mutant's id is no row's but its own.
type row struct {
	id, pkg, result string
	seconds         float64
	by              string // the test that noticed, or what else there is to say
}

func (r row) String() string {
	return fmt.Sprintf("%-48s %-34s %-16s %6.1f  %s", r.id, r.pkg, r.result, r.seconds, r.by)
}

// table is all rows in the list's order: those of this run, and of runs before that left the others.
type table struct {
	file string // "": it is not kept
	ids  []string
	rows map[string]row
	kept map[string]string // lines of the file
}

func newTable(file string, all []mutant) *table {
	t := &table{file: file, rows: map[string]row{}, kept: map[string]string{}}
	for _, m := range all {
		t.ids = append(t.ids, m.id)
	}
	text, _ := os.ReadFile(file) // there may be none yet
	for _, line := range strings.Split(string(text), "\n") {
		if id, _, _ := strings.Cut(line, " "); id != "" {
			t.kept[id] = line
		}
	}
	return t
}

// add says a row, and keeps it at once, so that a run that is ended has not been in vain.
func (t *table) add(r row) error {
	fmt.Println(strings.TrimRight(r.String(), " "))
	t.rows[r.id] = r
	t.kept[r.id] = strings.TrimRight(r.String(), " ")
	if t.file == "" {
		return nil
	}
	var b strings.Builder
	for _, id := range t.ids {
		if line := t.kept[id]; line != "" {
			b.WriteString(line + "\n")
		}
	}
	return os.WriteFile(t.file, []byte(b.String()), 0o644)
}

// sum counts this run's rows; good: nothing is to be done about them.
func (t *table) sum() (text string, good bool) {
	n := map[string]int{}
	for _, r := range t.rows {
		n[r.result]++
	}
	text = fmt.Sprintf("%d mutants", len(t.rows))
	for _, result := range []string{caught, hangs, allowed, survives, broken, untested} {
		if n[result] > 0 {
			text += fmt.Sprintf("; %d: %s", n[result], result)
		}
	}
	return text, n[survives]+n[broken]+n[untested] == 0
}
