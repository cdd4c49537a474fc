// SPDX-License-Identifier: Apache-2.0

// Package ratelog limits the log lines that anybody on the wire can cause.
package ratelog

import (
	"log/slog"
	"time"
)

// A Logger is a log with a limit for each event. Only Allow needs a single goroutine.
type Logger struct {
	*slog.Logger
	events map[string]window
}

// A window counts the lines of one event in one second.
type window struct {
	since time.Time
	n     int
}

// New makes a logger that writes to log.
func New(log *slog.Logger) *Logger { return &Logger{log, map[string]window{}} }

// Allow reports whether a line of an event may be written: there have been fewer than most of them in this second.
func (l *Logger) Allow(event string, most int) bool {
	now, w := time.Now(), l.events[event]
	if now.Sub(w.since) >= time.Second {
		w = window{since: now}
	}
	w.n++
	l.events[event] = w
	return w.n <= most
}
