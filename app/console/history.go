// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strings"
	"sync"
	"unicode"

	"causeway/app/command"
)

// historyMost bounds the history of a session, and the file that ctl keeps.
const historyMost = 200

// lines is the history of a session, for its arrow keys and Ctrl-R. Lines with a token are left out.
type lines struct {
	keep func(line string) // is given each that was added and may be kept for later sessions; nil: none is

	mu  sync.Mutex
	all []string
}

// Add implements term.History.
func (l *lines) Add(line string) {
	if hasToken(line) || !l.add(line) || l.keep == nil || !mayKeep(line) {
		return
	}
	l.keep(line)
}

// add adds a line that is not that before, and reports whether it was.
func (l *lines) add(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.all); strings.TrimSpace(line) == "" || n > 0 && l.all[n-1] == line {
		return false
	}
	l.all = append(l.all, line)
	if len(l.all) > historyMost {
		l.all = append(l.all[:0], l.all[1:]...)
	}
	return true
}

// load adds lines of earlier sessions. A client may send anything.
func (l *lines) load(earlier []string) {
	for _, line := range earlier {
		if strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
			l.add(line)
		}
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

// mayKeep reports whether a line has no Q_Key, which is for admins of the bridge and not for a file of the user's.
func mayKeep(line string) bool {
	v, err := command.Standard.Parse(line)
	if err != nil {
		return !strings.Contains(strings.ToLower(line), "qk") // it may be meant for one
	}
	return v == nil || !v.HasSecret()
}

// Len implements term.History.
func (l *lines) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// At implements term.History: 0 is the last line.
func (l *lines) At(i int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[len(l.all)-1-i]
}

// newest returns the lines, the newest last.
func (l *lines) newest() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.all...)
}
