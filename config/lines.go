// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
)

// scanLines maps every key of a TOML document to the line on which it stands, by its path:
// "roce.mtu", "group[0].mgid", and for the elements of an array "roce.addresses[1]".
// The TOML library does not export positions of values. It has read the document without an error, so the scanner need
// not check the syntax; it only must terminate on any input.
func scanLines(data string) map[string]int {
	s := lineScanner{data: data, line: 1, count: map[string]int{}, lines: map[string]int{}}
	for s.skipBlank(true); s.pos < len(s.data); s.skipBlank(true) {
		switch {
		case s.has("[["):
			s.header(2)
		case s.has("["):
			s.header(1)
		default:
			s.pair(s.table)
		}
	}
	return s.lines
}

type lineScanner struct {
	data  string
	pos   int
	line  int
	table string         // path of the table that keys belong to now
	count map[string]int // entries of each array of tables so far
	lines map[string]int
}

func (s *lineScanner) has(prefix string) bool { return strings.HasPrefix(s.data[s.pos:], prefix) }

// peek returns the byte at the position, 0 at the end.
func (s *lineScanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// step advances n bytes and counts the lines.
func (s *lineScanner) step(n int) {
	n = min(n, len(s.data)-s.pos)
	s.line += strings.Count(s.data[s.pos:s.pos+n], "\n")
	s.pos += n
}

// skipBlank moves past blanks and comments, and with newlines past line ends.
func (s *lineScanner) skipBlank(newlines bool) {
	for s.pos < len(s.data) {
		switch c := s.peek(); {
		case c == ' ' || c == '\t' || c == '\r' || (newlines && c == '\n'):
			s.step(1)
		case c == '#':
			s.toLineEnd()
		default:
			return
		}
	}
}

func (s *lineScanner) toLineEnd() {
	n := strings.IndexByte(s.data[s.pos:], '\n')
	if n < 0 {
		n = len(s.data) - s.pos
	}
	s.step(n)
}

// note records a path, unless it has been recorded before.
func (s *lineScanner) note(path string, line int) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = line
	}
}

// header reads [a.b] or [[a.b]].
func (s *lineScanner) header(brackets int) {
	line := s.line
	s.step(brackets)
	parts := s.keyParts()
	path := ""
	for i, part := range parts {
		path = join(path, part)
		last := i == len(parts)-1
		if last && brackets == 2 {
			s.count[path]++
		}
		if n := s.count[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
		}
	}
	s.note(path, line)
	s.table = path
	s.toLineEnd()
}

// pair reads one key = value.
func (s *lineScanner) pair(table string) {
	line := s.line
	path := table
	for _, part := range s.keyParts() {
		path = join(path, part)
		s.note(path, line)
	}
	s.skipBlank(false)
	if s.peek() != '=' {
		s.step(1) // not possible in a valid document
		return
	}
	s.step(1)
	s.skipBlank(false)
	s.value(path)
}

// keyParts reads a.b."c d" up to the byte after it.
func (s *lineScanner) keyParts() []string {
	var parts []string
	for {
		s.skipBlank(false)
		parts = append(parts, s.keyPart())
		s.skipBlank(false)
		if s.peek() != '.' {
			return parts
		}
		s.step(1)
	}
}

func (s *lineScanner) keyPart() string {
	start := s.pos
	switch s.peek() {
	case '"', '\'':
		s.str()
		quoted := s.data[start:s.pos]
		if plain, err := strconv.Unquote(quoted); err == nil {
			return plain
		}
		return strings.Trim(quoted, `"'`)
	}
	for s.pos < len(s.data) && !strings.ContainsRune(" \t\r\n.=]#", rune(s.peek())) {
		s.step(1)
	}
	return s.data[start:s.pos]
}

// value moves past a value and records the paths inside it.
func (s *lineScanner) value(path string) {
	switch s.peek() {
	case '"', '\'':
		s.str()
	case '[':
		s.array(path)
	case '{':
		s.inline(path)
	default:
		for s.pos < len(s.data) && !strings.ContainsRune(",]}#\n", rune(s.peek())) {
			s.step(1)
		}
	}
}

func (s *lineScanner) array(path string) {
	s.step(1)
	for i := 0; s.pos < len(s.data); i++ {
		s.skipBlank(true)
		if s.peek() == ']' {
			s.step(1)
			return
		}
		element, start := fmt.Sprintf("%s[%d]", path, i), s.pos
		s.note(element, s.line)
		s.value(element)
		s.skipBlank(true)
		if s.peek() == ',' || s.pos == start {
			s.step(1)
		}
	}
}

func (s *lineScanner) inline(path string) {
	s.step(1)
	for s.pos < len(s.data) {
		s.skipBlank(true)
		switch s.peek() {
		case '}':
			s.step(1)
			return
		case ',':
			s.step(1)
		default:
			s.pair(path)
		}
	}
}

// str moves past a string of any of the four kinds.
func (s *lineScanner) str() {
	quote := s.data[s.pos : s.pos+1]
	escapes := quote == `"`
	if long := strings.Repeat(quote, 3); s.has(long) {
		quote = long
	}
	s.step(len(quote))
	for s.pos < len(s.data) && !s.has(quote) {
		if escapes && s.peek() == '\\' {
			s.step(1)
		}
		s.step(1)
	}
	s.step(len(quote))
	for len(quote) == 3 && s.peek() == quote[0] {
		s.step(1) // up to two quotes may stand before the closing three
	}
}

func join(path, part string) string {
	if path == "" {
		return part
	}
	return path + "." + part
}
