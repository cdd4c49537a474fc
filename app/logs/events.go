// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

// An Event is one line of the log, in parts.
type Event struct {
	At      time.Time
	Level   slog.Level
	Name    string
	Details string          // the attributes, as text whatever the log's format is; at most 4096 bytes
	Values  json.RawMessage // the same as an object, durations as seconds; nil: longer than 4096 bytes
}

// Events returns the last n events, the oldest first; at most 1000.
func (k *Control) Events(n int) []Event { return k.events.last(n) }

// A Follower reads events as they come. It keeps none: events that it has not read when 1000 others have come are lost
// to it. It has one user at a time.
type Follower struct {
	ring *ring[Event]
	at   uint64 // how many events are before the next
}

// Follow returns a follower that begins with the last n events; at most 1000.
func (k *Control) Follow(n int) *Follower {
	k.events.mu.Lock()
	defer k.events.mu.Unlock()
	n = min(max(n, 0), len(k.events.lines))
	return &Follower{&k.events, k.events.count - uint64(n)}
}

// atOnce bounds the events that a follower holds.
const atOnce = 64

// Next waits for events, and returns them, the oldest first, and how many before them are lost. An error is that of
// ctx.
func (f *Follower) Next(ctx context.Context) (events []Event, lost uint64, err error) {
	for {
		events, lost, changed := f.ring.from(f.at, atOnce)
		if f.at += lost + uint64(len(events)); len(events) > 0 || lost > 0 {
			return events, lost, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// parts are what a splitter writes of the last event.
type parts struct {
	mu     sync.Mutex
	text   bytes.Buffer
	object bytes.Buffer
}

// A splitter writes the attributes of an event, as text and as an object.
type splitter struct{ text, object slog.Handler }

func newSplitter(p *parts) splitter {
	return splitter{
		slog.NewTextHandler(&p.text, &slog.HandlerOptions{ReplaceAttr: onlyDetails}),
		slog.NewJSONHandler(&p.object, &slog.HandlerOptions{ReplaceAttr: onlyValues}),
	}
}

func (s splitter) withAttrs(attrs []slog.Attr) splitter {
	return splitter{s.text.WithAttrs(attrs), s.object.WithAttrs(attrs)}
}

func (s splitter) withGroup(name string) splitter {
	return splitter{s.text.WithGroup(name), s.object.WithGroup(name)}
}

// keep keeps an event, whose parts a splitter writes.
func (k *Control) keep(ctx context.Context, by splitter, r slog.Record) {
	p := &k.parts
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Reset()
	p.object.Reset()
	_ = by.text.Handle(ctx, r) // a buffer takes all
	_ = by.object.Handle(ctx, r)
	e := Event{At: r.Time, Level: r.Level, Name: r.Message, Details: trimmed(p.text.Bytes())}
	if p.object.Len() <= longest {
		e.Values = json.RawMessage(trimmed(p.object.Bytes()))
	}
	k.events.add(e)
}

// onlyDetails leaves out what an Event has besides.
func onlyDetails(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// onlyValues does so, too, and makes a value for JSON: a duration is its seconds.
func onlyValues(groups []string, a slog.Attr) slog.Attr {
	a = onlyDetails(groups, a)
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key, a.Value.Duration().Seconds())
	}
	return asText(groups, a)
}
