// SPDX-License-Identifier: Apache-2.0

// Package logs is the bridge's logging: log/slog, one line per event, with a rate limit for each event.
//
//	log.Info("host_learned", …) ─▶ level? ─▶ too often? ─▶ text or JSON ─┬▶ standard error
//	                                             └▶ counted             └▶ the last lines, for the console
//
// A message is the name of an event, which does not change between versions; details are in the attributes.
// list_test.go lists the names. The packet path logs nothing: it counts.
package logs

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"causeway/config"
)

const (
	// most is the limit of lines per window and event: more than an operator can read, far fewer than fill a disk.
	most   = 20
	window = time.Second
	// reportEvery is how often a flood that does not end is reported.
	reportEvery = time.Minute
	// eventsMost bounds the map of events: all are in list_test.go, but names could come from anywhere.
	eventsMost = 1000
)

// New returns a logger that writes to w as c says, and its Control.
func New(c config.Log, w io.Writer) (*slog.Logger, *Control) {
	k := &Control{out: w, limits: map[string]*limit{}, now: time.Now}
	if err := k.SetLevel(c.Level); err != nil {
		k.level.Set(slog.LevelInfo) // config has checked the level
	}
	k.writer = newWriter(c, k, &k.level)
	if o, ok := w.(*Output); ok {
		k.queued, k.journal = true, isJournal(o.to)
		k.lost = newWriter(c, &k.lostLine, &k.level)
		o.failed, o.report, o.unreported = k.unwrittenLines, k.lostReport, k.reportLater
	}
	k.splitter = newSplitter(&k.parts)
	return slog.New(handler{k.writer, k, k.splitter}), k
}

// newWriter returns a handler that writes lines in a log's format.
func newWriter(c config.Log, w io.Writer, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		o.ReplaceAttr = asText
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// asText makes JSON write a fmt.Stringer as text: GIDs and MAC addresses are arrays of bytes otherwise,
// and LIDs and queue pairs' numbers are decimal. Errors and what knows how to be JSON are left to the handler.
func asText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	v := a.Value.Any()
	switch v.(type) {
	case nil, error, json.Marshaler, encoding.TextMarshaler, *slog.Source:
		return a
	case fmt.Stringer:
		return slog.String(a.Key, fmt.Sprint(v)) // Sprint survives a nil pointer
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice || !list.Type().Elem().Implements(reflect.TypeFor[fmt.Stringer]()) {
		return a
	}
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = fmt.Sprint(list.Index(i).Interface())
	}
	return slog.Any(a.Key, texts)
}

// A Control controls a logger at run time. Its methods may be called from any goroutine.
type Control struct {
	level    slog.LevelVar
	out      io.Writer
	writer   slog.Handler
	splitter splitter // writes the parts of events
	now      func() time.Time

	journal  bool         // out is systemd's journal
	queued   bool         // out is an Output: whether a line could be written is known later
	lost     slog.Handler // writes log_lost to lostLine, which only the Output's goroutine uses
	lostLine bytes.Buffer

	mu         sync.Mutex
	limits     map[string]*limit // by event
	suppressed uint64
	unwritten  uint64 // lines that could not be written
	unreported uint64 // of them, those that log_lost has not had

	lines  ring[string]
	events ring[Event]
	parts  parts
}

// A limit is the rate limit of one event.
type limit struct {
	since    time.Time // the window's start
	n        int       // lines in this window
	missed   uint64    // suppressed and not yet reported
	seen     uint64    // missed, when calm last ran
	reported time.Time // the last report, or the first suppressed line
	timer    *time.Timer
}

// SetLevel sets the lowest level that is logged: debug, info, warn or error.
func (k *Control) SetLevel(name string) error {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if name == strings.ToLower(l.String()) {
			k.level.Set(l)
			return nil
		}
	}
	return fmt.Errorf("logs: level %q is not known; use debug, info, warn or error", name)
}

// Level returns the level as SetLevel takes it.
func (k *Control) Level() string { return strings.ToLower(k.level.Level().String()) }

// Recent returns the last n lines, the oldest first; at most 1000.
func (k *Control) Recent(n int) []string { return k.lines.last(n) }

// Suppressed returns the number of lines that the rate limit suppressed.
func (k *Control) Suppressed() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.suppressed
}

// Flush reports all suppressed lines that were not reported yet. Call it at the end of the program.
func (k *Control) Flush() {
	k.mu.Lock()
	unreported := map[string]uint64{}
	for event, l := range k.limits {
		if l.missed > 0 {
			unreported[event], l.missed, l.seen = l.missed, 0, 0
		}
		if l.timer != nil {
			l.timer.Stop()
			l.timer = nil
		}
	}
	k.mu.Unlock()
	for event, n := range unreported {
		k.report(event, n)
	}
}

// Write implements io.Writer. The handler calls it once for each line, never concurrently.
func (k *Control) Write(line []byte) (int, error) {
	k.lines.add(trimmed(line))
	if k.journal {
		line = forJournal(line)
	}
	n, err := k.out.Write(line)
	if err != nil {
		k.unwrittenLines(1)
	}
	return n, err
}

// admit reports whether another line of an event may be written.
func (k *Control) admit(event string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	l := k.limits[event]
	if l == nil {
		if len(k.limits) >= eventsMost {
			event = "" // further events share one limit
		}
		if l = k.limits[event]; l == nil {
			l = &limit{since: now}
			k.limits[event] = l
		}
	}
	if now.Sub(l.since) >= window {
		l.since, l.n = now, 0
	}
	if l.n++; l.n <= most {
		return true
	}
	k.suppressed++
	l.missed++
	if l.timer == nil {
		l.reported = now
		l.timer = time.AfterFunc(window, func() { k.calm(event) })
	}
	return false
}

// calm runs once a window for an event with suppressed lines. It reports them when no more were suppressed, or after a
// minute.
func (k *Control) calm(event string) {
	k.mu.Lock()
	l, now := k.limits[event], k.now()
	if l.timer == nil { // flushed
		k.mu.Unlock()
		return
	}
	calm, lines := l.missed == l.seen, uint64(0)
	if calm || now.Sub(l.reported) >= reportEvery {
		lines, l.missed, l.reported = l.missed, 0, now
	}
	l.seen, l.timer = l.missed, nil
	if !calm {
		l.timer = time.AfterFunc(window, func() { k.calm(event) })
	}
	k.mu.Unlock()
	if lines > 0 {
		k.report(event, lines)
	}
}

// report writes how many lines of an event were suppressed. It needs no limit: there is at most one a second for each
// event.
func (k *Control) report(event string, n uint64) {
	k.note("suppressed", slog.String("event", event), slog.Uint64("lines", n))
}

// note writes a line of the log itself, past the limits.
func (k *Control) note(event string, attrs ...slog.Attr) {
	r := slog.NewRecord(k.now(), slog.LevelWarn, event, 0)
	r.AddAttrs(attrs...)
	if k.writer.Enabled(context.Background(), r.Level) {
		k.keep(context.Background(), k.splitter, r)
		_ = k.writer.Handle(context.Background(), r) // a log that cannot be written cannot report that
	}
}

// A handler applies the rate limit before another handler.
type handler struct {
	slog.Handler
	k        *Control
	splitter splitter // has the same attributes and groups
}

// Handle writes a line or counts it as suppressed.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.k.admit(r.Message) {
		return nil
	}
	h.k.keep(ctx, h.splitter, r)
	err := h.Handler.Handle(ctx, r)
	if err == nil && !h.k.queued {
		h.k.written()
	}
	return err
}

// WithAttrs keeps the rate limit.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.k, h.splitter.withAttrs(attrs)}
}

// WithGroup keeps the rate limit.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.k, h.splitter.withGroup(name)}
}
