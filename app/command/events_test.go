// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"causeway/app/command"
	kept "causeway/app/logs"
	"causeway/config"
)

// A slow takes results, and does something at each.
type slow struct {
	sheet
	objects []map[string]any
	at      func(n int)
}

func (s *slow) Show(r command.Result) error {
	b, err := r.JSON(true)
	if err != nil {
		return err
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	s.objects = append(s.objects, o)
	if s.at != nil {
		s.at(len(s.objects))
	}
	return s.sheet.Show(r)
}

// follow runs "events" with arguments until it ends, or within.
func follow(t *testing.T, e *command.Env, args string, out command.Out, ctx context.Context) {
	t.Helper()
	v, err := command.Standard.Parse("events " + args)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- v.Command.Stream(ctx, v.Call(e, command.View, "test"), out) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// TestEvents checks that the last events come first, then each as it happens, with numbers as numbers.
func TestEvents(t *testing.T) {
	log, control := kept.New(config.Log{Level: "info", Format: "text"}, io.Discard)
	e, _ := env(1)
	e.Logs = control
	for i := range 5 {
		log.Info(fmt.Sprint("old", i))
	}
	out := &slow{}
	out.at = func(n int) {
		if n == 2 { // both old ones were shown
			log.Warn("link_down", "port", "eth1", "lost", 5, "after", 250*time.Millisecond, "sure", true)
		}
	}
	follow(t, e, "last 2 count 3", out, t.Context())
	text := out.text
	for _, part := range []string{" info  old3\n", " info  old4\n", " warn  link_down  port=eth1 lost=5 after=250ms sure=true\n"} {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			t.Fatalf("no %q, or not there, in\n%s", part, out.text)
		}
		text = rest
	}
	event, _ := out.objects[2]["event"].(map[string]any)
	details, _ := event["details"].(map[string]any)
	if fmt.Sprintf("%v %v %v", event["level"], event["name"], details) != "warn link_down map[after:0.25 lost:5 port:eth1 sure:true]" || details["lost"] != 5.0 || details["sure"] != true {
		t.Errorf("%v", out.objects[2])
	}
	if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(event["time"])); err != nil || time.Since(at) > time.Hour {
		t.Errorf("%v, %v", event["time"], err)
	}
	ended, end := context.WithCancel(t.Context())
	out = &slow{at: func(int) { end() }}
	follow(t, e, "last 1", out, ended)
	if len(out.objects) != 1 {
		t.Errorf("after the end: %v", out.objects)
	}
}

// TestEventsLost checks that a reader that does not keep up is told how many events it has lost, and gets those that
// are kept.
func TestEventsLost(t *testing.T) {
	log, control := kept.New(config.Log{Level: "info", Format: "text"}, io.Discard)
	e, _ := env(1)
	e.Logs = control
	log.Info("first")
	out := &slow{}
	out.at = func(n int) {
		if n == 1 {
			for i := range 1500 { // 1000 are kept
				log.Info(fmt.Sprint("event", i%900), "n", i) // each name has a limit of its own
			}
		}
	}
	follow(t, e, "count 1001", out, t.Context())
	if n := len(out.objects); n != 1002 || out.objects[1]["lost"] != 500.0 || !strings.Contains(out.text, "\n500 events lost: they came faster than they were read\n") ||
		!strings.Contains(out.text, " n=500\n") || strings.Contains(out.text, " n=499\n") {
		t.Errorf("%d results; %.300s", n, out.text)
	}
}
