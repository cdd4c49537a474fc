// SPDX-License-Identifier: Apache-2.0

// Package logs is how the bridge logs: log/slog, one line an event, with a rate limit for each.
//
//	log.Info("host_learned", …) ─▶ level? ─▶ too often? ─▶ text or JSON ─┬▶ standard error
//	                                             └▶ counted             └▶ the last lines, for the console
//
// A message is the name of an event, and stays what it is from one version to the next; what differs is in the attributes.
// list.go lists the names. The packet path logs nothing: it counts.
package logs

import (
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
	// most lines a second of one event: more than an operator can read, and far fewer than fill a disk.
	most   = 20
	window = time.Second
	// reportEvery is how often a flood that does not end is told of.
	reportEvery = time.Minute
	// kinds bounds the books: all events are in list.go, but their names could come from anywhere.
	kinds = 1000
)

// New returns a logger that writes to w as c says, and what commands it while it runs.
func New(c config.Log, w io.Writer) (*slog.Logger, *Control) {
	k := &Control{out: w, books: map[string]*book{}, now: time.Now}
	if err := k.SetLevel(c.Level); err != nil {
		k.level.Set(slog.LevelInfo) // config knows the levels
	}
	o := &slog.HandlerOptions{Level: &k.level}
	if c.Format == "json" {
		o.ReplaceAttr = asText
		k.writer = slog.NewJSONHandler(k, o)
	} else {
		k.writer = slog.NewTextHandler(k, o)
	}
	return slog.New(handler{k.writer, k}), k
}

// asText has JSON show a value as text does, where the value knows how: GIDs and MAC addresses are arrays of bytes otherwise,
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

// A Control commands a logger. Its methods are safe from any goroutine.
type Control struct {
	level  slog.LevelVar
	out    io.Writer
	writer slog.Handler
	now    func() time.Time

	mu         sync.Mutex
	books      map[string]*book
	suppressed uint64

	lines ring
}

// A book is of one event.
type book struct {
	since  time.Time // the window's beginning
	n      int       // in this window
	missed uint64    // suppressed, and not yet told of
	seen   uint64    // as many of them were there at calm's last look
	told   time.Time // when suppressed lines were last told of, or began
	timer  *time.Timer
}

// SetLevel sets the least important level that is logged: debug, info, warn or error.
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

// Recent returns the last n lines, the oldest first; there are 1000 at most.
func (k *Control) Recent(n int) []string { return k.lines.last(n) }

// Suppressed returns how many lines were not written because there were too many of their event.
func (k *Control) Suppressed() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.suppressed
}

// Flush tells of all suppressed lines that nothing was said of yet: at the end of the program.
func (k *Control) Flush() {
	k.mu.Lock()
	told := map[string]uint64{}
	for event, b := range k.books {
		if b.missed > 0 {
			told[event], b.missed, b.seen = b.missed, 0, 0
		}
		if b.timer != nil {
			b.timer.Stop()
			b.timer = nil
		}
	}
	k.mu.Unlock()
	for event, n := range told {
		k.tell(event, n)
	}
}

// Write takes one line from the handler, which calls it once a line and one at a time.
func (k *Control) Write(line []byte) (int, error) {
	k.lines.add(line)
	return k.out.Write(line)
}

// admit reports whether another line of an event may be written.
func (k *Control) admit(event string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	b := k.books[event]
	if b == nil {
		if len(k.books) >= kinds {
			event = "" // all others together
		}
		if b = k.books[event]; b == nil {
			b = &book{since: now}
			k.books[event] = b
		}
	}
	if now.Sub(b.since) >= window {
		b.since, b.n = now, 0
	}
	if b.n++; b.n <= most {
		return true
	}
	k.suppressed++
	b.missed++
	if b.timer == nil {
		b.told = now
		b.timer = time.AfterFunc(window, func() { k.calm(event) })
	}
	return false
}

// calm looks at an event that was suppressed, once a window. When none more was, or after a minute, it says how many lines are
// missing.
func (k *Control) calm(event string) {
	k.mu.Lock()
	b, now := k.books[event], k.now()
	if b.timer == nil { // flushed
		k.mu.Unlock()
		return
	}
	calm, told := b.missed == b.seen, uint64(0)
	if calm || now.Sub(b.told) >= reportEvery {
		told, b.missed, b.told = b.missed, 0, now
	}
	b.seen, b.timer = b.missed, nil
	if !calm {
		b.timer = time.AfterFunc(window, func() { k.calm(event) })
	}
	k.mu.Unlock()
	if told > 0 {
		k.tell(event, told)
	}
}

// tell writes how many lines of an event are missing. It is not limited itself: there is one a second and event, at most.
func (k *Control) tell(event string, n uint64) {
	r := slog.NewRecord(k.now(), slog.LevelWarn, "suppressed", 0)
	r.AddAttrs(slog.String("event", event), slog.Uint64("lines", n))
	if k.writer.Enabled(context.Background(), r.Level) {
		_ = k.writer.Handle(context.Background(), r) // there is nowhere to say that the log cannot be written
	}
}

// A handler limits what goes to another one.
type handler struct {
	slog.Handler
	k *Control
}

// Handle writes a line, or counts it.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.k.admit(r.Message) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the limit.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.k}
}

// WithGroup keeps the limit.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.k} }
