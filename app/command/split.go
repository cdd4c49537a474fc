// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
)

// A Usage is an error in what the user wrote.
type Usage struct{ text string }

func (u *Usage) Error() string { return u.text }

func usagef(format string, args ...any) error { return &Usage{fmt.Sprintf(format, args...)} }

// A word is one word of a line.
type word struct {
	text  string
	start int  // its offset in the line, in bytes
	pipe  bool // it is the bar between two stages
}

// split divides a line into words at blanks and bars. Single or double quotes keep blanks and bars in a word. A
// backslash is an ordinary character, because regular expressions have many. open: a quote is not closed.
func split(line string) (words []word, open bool) {
	var text strings.Builder
	start, quote := -1, rune(0)
	end := func() {
		if start >= 0 {
			words = append(words, word{text: text.String(), start: start})
		}
		text.Reset()
		start = -1
	}
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			text.WriteRune(r)
		case r == ' ' || r == '\t':
			end()
		case r == '|':
			end()
			words = append(words, word{text: "|", start: i, pipe: true})
		case r == '\'' || r == '"':
			quote = r
			if start < 0 {
				start = i
			}
		default:
			if start < 0 {
				start = i
			}
			text.WriteRune(r)
		}
	}
	end()
	return words, quote != 0
}

// stages groups words by the bars between them.
func stages(words []word) [][]string {
	out := [][]string{nil}
	for _, w := range words {
		if w.pipe {
			out = append(out, nil)
			continue
		}
		out[len(out)-1] = append(out[len(out)-1], w.text)
	}
	return out
}
