// SPDX-License-Identifier: Apache-2.0

package command

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// gap matches what divides a line into columns.
var gap = regexp.MustCompile(`\S {2,}`)

// Hang breaks lines between words so that they are shorter than width columns. What follows a break is below the line's
// last column that begins in its left half. 0: no width is known, and nothing is broken.
func Hang(lines []string, width int) (out []string) {
	for _, line := range lines {
		if width == 0 || utf8.RuneCountInString(line) < width {
			out = append(out, line)
			continue
		}
		at := len(line) - len(strings.TrimLeft(line, " "))
		for _, g := range gap.FindAllStringIndex(line, -1) {
			if g[1] <= width/2 {
				at = g[1]
			}
		}
		head := line[:at]
		for _, part := range broken(line[at:], width-1-utf8.RuneCountInString(head)) {
			out = append(out, head+part)
			head = strings.Repeat(" ", utf8.RuneCountInString(head))
		}
	}
	return out
}

// broken breaks a text between words, and words that are longer than a line.
func broken(text string, width int) (lines []string) {
	line := []rune{}
	flush := func() {
		lines = append(lines, string(line))
		line = line[:0]
	}
	for _, w := range strings.Fields(text) {
		word := []rune(w)
		if len(line) > 0 && len(line)+1+len(word) > width {
			flush()
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for len(line)+len(word) > width {
			n := max(1, width-len(line))
			line = append(line, word[:n]...)
			word = word[n:]
			flush()
		}
		line = append(line, word...)
	}
	if len(line) > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}
