// SPDX-License-Identifier: Apache-2.0

package manage

import "time"

// lines are those of one event in the log.
type lines struct {
	since time.Time // begin of the second that n counts
	n     int
}

// mayLog keeps what anybody on the wire can cause as often as he likes from filling the log: it reports
// whether there are fewer than most such lines in this second.
func (l *Loop) mayLog(event string, most int) bool {
	now, of := time.Now(), l.logged[event]
	if now.Sub(of.since) >= time.Second {
		of = lines{since: now}
	}
	of.n++
	l.logged[event] = of
	return of.n <= most
}
