// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// suggest returns the known word that is probably meant, or else all known words.
func suggest(word string, known []string, intro string) string {
	if best := Nearest(word, known); best != "" {
		return "did you mean " + best + "?"
	}
	return intro + " " + enumerate(known, "and")
}

// Nearest returns the known word that word was probably meant to be, or "" when none is near.
func Nearest(word string, known []string) string {
	best, least := "", 3 // at most two typing errors
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance returns the optimal string alignment distance: the letters to insert, delete, replace or transpose to turn a
// into b. It returns a large number when the lengths differ by more than 3.
func distance(a, b string) int {
	if len(a) > len(b)+3 || len(b) > len(a)+3 {
		return 1 << 10
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// alternatives joins quoted words: "a", "b" or "c".
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + w + `"`
	}
	return enumerate(quoted, "or")
}

// enumerate joins words: a, b and c.
func enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// tablesWith lists the tables that have a key of this name, as headers.
func tablesWith(name string) string {
	var owners []string
	for _, t := range tables {
		if findKey(t.name, name) != nil {
			owners = append(owners, t.header())
		}
	}
	return enumerate(owners, "or")
}
