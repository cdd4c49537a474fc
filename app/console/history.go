// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strings"

	"causeway/app/command"
)

// historyMost bounds the history of a session.
const historyMost = 200

// history is the lines of a session, for its arrow keys. Lines with a token are left out.
type history struct{ lines []string }

// Add implements term.History.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line || hasToken(line) {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > historyMost {
		h.lines = append(h.lines[:0], h.lines[1:]...)
	}
}

// hasToken reports whether a line may contain the token.
func hasToken(line string) bool {
	v, err := command.Standard.Parse(line)
	if err == nil && v != nil {
		return v.Command.Local == command.LocalLogin
	}
	first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return strings.HasPrefix("login", first) && first != ""
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History: 0 is the last line.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
