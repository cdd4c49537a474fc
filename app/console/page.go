// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"strings"
	"unicode/utf8"
)

// more is the prompt below a full screen; lessMore erases it.
const (
	more     = "\x1b[7m-- more: space, Enter or q --\x1b[0m"
	lessMore = "\r\x1b[K"
)

// page prints lines, one screen at a time.
func (x *session) page(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return x.pageText(strings.Join(lines, "\n") + "\n")
}

// pageText prints text, and stops at each full screen if the client has a terminal.
func (x *session) pageText(text string) error {
	width, height := x.size()
	if !x.paging || height < 3 || width < 1 || !x.edits() {
		_, err := io.WriteString(x.out, text)
		return closed(err)
	}
	room := height - 1
	var shown strings.Builder
	for line := range strings.Lines(text) {
		rows := rowsOf(strings.TrimSuffix(line, "\n"), width)
		for rows > room {
			if room == height-1 { // a line longer than a screen
				break
			}
			if _, err := io.WriteString(x.out, shown.String()+more); err != nil {
				return closed(err)
			}
			shown.Reset()
			if room = x.onMore(height); room == 0 {
				return nil
			}
		}
		shown.WriteString(line)
		room -= rows
	}
	_, err := io.WriteString(x.out, shown.String())
	return closed(err)
}

// rowsOf returns how many rows of the screen a line takes.
func rowsOf(line string, width int) int {
	return 1 + max(0, utf8.RuneCountInString(line)-1)/width
}

// onMore waits for a key and returns how many more rows to print; 0 to stop.
func (x *session) onMore(height int) (rows int) {
	for {
		switch x.in.key() {
		case ' ', 'f':
			rows = height - 1
		case '\r':
			rows = 1
		case 'q', 'Q', interrupt, 0:
		default:
			continue
		}
		if _, err := io.WriteString(x.out, lessMore); err != nil {
			return 0
		}
		return rows
	}
}

// drawing returns text that replaces the previous drawing: on a terminal from its first line, truncated to its size;
// elsewhere after a blank line.
func drawing(text string, width, height int, terminal bool, drawn *bool) string {
	first := !*drawn
	*drawn = true
	if !terminal {
		if first {
			return text
		}
		return "\n" + text
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	if first {
		b.WriteString("\x1b[2J")
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; height > 0 && n >= height {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		if width > 0 && utf8.RuneCountInString(line) > width {
			line = string([]rune(line)[:width])
		}
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// isToken compares in constant time, and hides the token's length, too.
func isToken(guess, token string) bool {
	a, b := sha256.Sum256([]byte(guess)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
