// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/config"
)

// TestKeptEvents checks that events are kept in parts, in either format, and the last ones only.
func TestKeptEvents(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		log, control := New(config.Log{Level: "info", Format: format}, io.Discard)
		log.Debug("ready")
		log.With("a", 1).WithGroup("g").Warn("group_rejected", "msg", "x y", "time", time.Second)
		log.Info("metrics", "long", strings.Repeat("x", 2*longest))
		all := control.Events(9)
		if len(all) != 2 {
			t.Fatalf("%s: %+v", format, all)
		}
		e := all[0]
		if e.Name != "group_rejected" || e.Level != slog.LevelWarn || time.Since(e.At) > time.Minute || e.Details != `a=1 g.msg="x y" g.time=1s` {
			t.Errorf("%s: %+v", format, e)
		}
		if n := len(all[1].Details); n != longest {
			t.Errorf("%s: %d bytes of details", format, n)
		}
		for i := range kept {
			log.Info(fmt.Sprint("event", i)) // each has a limit of its own
		}
		if all := control.Events(2 * kept); len(all) != kept || all[0].Name != "event0" || all[kept-1].Name != fmt.Sprint("event", kept-1) || all[0].Details != "" {
			t.Errorf("%s: %d events", format, len(all))
		}
	}
}

// TestKeptSuppressed checks that what was suppressed is an event, too.
func TestKeptSuppressed(t *testing.T) {
	log, control := New(config.Log{Level: "info", Format: "json"}, io.Discard)
	for range most + 5 {
		log.Info("host_learned")
	}
	control.Flush()
	all := control.Events(kept)
	if last := all[len(all)-1]; len(all) != most+1 || last.Name != "suppressed" || last.Details != "event=host_learned lines=5" {
		t.Errorf("%d events, %+v", len(all), last)
	}
}

// TestFollow checks that a follower gets each event once and in order, waits for the next, and is told what it has
// lost.
func TestFollow(t *testing.T) {
	log, control := New(config.Log{Level: "info", Format: "text"}, io.Discard)
	log.Info("a")
	log.Info("b")
	f, late := control.Follow(1), control.Follow(0)
	next := func(f *Follower) ([]Event, uint64) {
		t.Helper()
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		all, lost, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return all, lost
	}
	if all, lost := next(f); len(all) != 1 || all[0].Name != "b" || lost != 0 {
		t.Errorf("%+v, %d lost", all, lost)
	}
	go log.With("a", 1).WithGroup("g").Info("c", "b", time.Second, "ip", netip.MustParseAddr("10.9.0.1"))
	if all, lost := next(f); len(all) != 1 || all[0].Name != "c" || string(all[0].Values) != `{"a":1,"g":{"b":1,"ip":"10.9.0.1"}}` || lost != 0 {
		t.Errorf("%+v, %s, %d lost", all, all[0].Values, lost)
	}
	log.Info("d", "long", strings.Repeat("x", 2*longest))
	if all, _ := next(f); all[0].Values != nil || len(all[0].Details) != longest {
		t.Errorf("%d bytes of values, %d of details", len(all[0].Values), len(all[0].Details))
	}
	for i := range 3 * kept {
		log.Info(fmt.Sprint("event", i%900), "n", i) // each name has a limit of its own
	}
	total := uint64(0)
	for at := 2 * kept; total < 3*kept; {
		all, lost := next(f)
		if want := uint64(2 * kept); total == 0 && lost != want || total > 0 && lost != 0 || len(all) > atOnce {
			t.Fatalf("%d lost, %d at once", lost, len(all))
		}
		for _, e := range all {
			if e.Details != fmt.Sprint("n=", at) {
				t.Fatalf("%s, want n=%d", e.Details, at)
			}
			at++
		}
		total += lost + uint64(len(all))
	}
	if _, lost := next(late); lost != 2*kept+2 {
		t.Errorf("%d lost", lost)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
