// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Keys of a search.
const (
	searchKey = 18 // Ctrl-R
	cancelKey = 7  // Ctrl-G
	backspace = 8
	deleteKey = 127
)

// search finds a line of the history while a part of it is typed, and returns it. Ctrl-R goes on to an older one;
// Ctrl-C and Ctrl-G return the line that was edited. All other control keys are then the editor's: Enter runs the line.
// The editor calls it, and does nothing meanwhile.
func (x *session) search(line string, pos int) (string, int) {
	width := x.tableWidth()
	if width == 0 {
		width = 80
	}
	up := utf8.RuneCountInString(x.prompt()+line[:pos]) / width // rows from the line's first to the cursor's
	if up > 0 {
		_, _ = fmt.Fprintf(x.out, "\x1b[%dA", up) // as in print, and the following ones
	}
	s := search{all: x.history.newest(), found: line}
	s.at = len(s.all)
	for done := false; !done; {
		_, _ = io.WriteString(x.out, "\r\x1b[J"+s.shown(width))
		switch b := x.in.key(); {
		case b == searchKey:
			s.find(s.at - 1)
		case b == backspace || b == deleteKey:
			s.shorten()
		case b == cancelKey || b == interrupt || b == 0:
			s.found, done = line, true
		case b < ' ':
			x.in.unread(b)
			done = true
		default:
			s.part += string([]byte{b})
			if utf8.ValidString(s.part) { // else the rest of a character follows
				s.find(min(s.at, len(s.all)-1))
			}
		}
	}
	_, _ = io.WriteString(x.out, "\r\x1b[J"+strings.Repeat("\n", up))
	_, _ = io.WriteString(x.editor, "") // draws its line
	if s.found == line {
		return line, pos
	}
	return s.found, len(s.found)
}

// A search is one for a part of a line.
type search struct {
	all   []string // the newest last
	part  string
	at    int    // where it was found
	found string // the line
	none  bool   // there is no older one
}

// find looks from a line on to older ones.
func (s *search) find(from int) {
	for i := from; i >= 0; i-- {
		if strings.Contains(s.all[i], s.part) {
			s.at, s.found, s.none = i, s.all[i], false
			return
		}
	}
	s.none = true
}

// shorten takes the last character back.
func (s *search) shorten() {
	_, n := utf8.DecodeLastRuneInString(s.part)
	s.part = s.part[:len(s.part)-n]
	s.find(len(s.all) - 1)
}

// shown is what is shown while it is searched.
func (s *search) shown(width int) string {
	text := fmt.Sprintf("search %q: %s", s.part, s.found)
	if s.none {
		text = fmt.Sprintf("search %q, no other: %s", s.part, s.found)
	}
	if r := []rune(text); len(r) >= width {
		text = string(r[:width-1])
	}
	return text
}
