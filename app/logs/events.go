// SPDX-License-Identifier: Apache-2.0

package logs

// An Event is one kind of line. Names do not change between versions, so that one can search for them.
type Event struct {
	Name  string
	Level string // one or several
	Area  string // the heading in docs/log.md
	Means string // the meaning, and what to do
}
