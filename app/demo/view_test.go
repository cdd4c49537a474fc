// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// busy is a bridge with large counters.
type busy struct{}

func (busy) Counters() (c lcore.Counters) {
	for d := range c.Direction {
		c.Direction[d] = lcore.DirectionCounters{Received: 123456789, Sent: 123456780, Drops: map[lcore.Drop]uint64{1: 9}}
	}
	return c
}

func (busy) Status() manage.Status {
	return manage.Status{Hosts: 2, ProxyQPs: 4, Groups: 2, Counters: manage.Counters{
		HostCounters: manage.HostCounters{ARPAnswered: 99, NDAnswered: 99}, GroupCounters: manage.GroupCounters{GroupReports: 99},
	}}
}

// shown returns a view of flows that have run for long.
func shown(out *bytes.Buffer) *view {
	var flows []*flow
	for _, name := range []string{"host1 ⇄ echo 10.9.0.7", "listen → 239.1.2.4 → hosts"} {
		f := newFlow(name, "multicast to RoCE", 2)
		f.sent.Store(12345678)
		f.arrived.Store(24691300)
		f.trips.took = []time.Duration{123456 * time.Microsecond}
		flows = append(flows, f)
	}
	return newView(Options{Out: out, Duration: time.Hour}, busy{}, flows, time.Now().Add(-time.Hour))
}

// TestColumns checks that the table fits into 80 columns without being cut, and uses 120.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		width     int
		described bool
		keep      bool
	}{{80, false, false}, {120, true, false}, {80, false, true}} {
		v := shown(&bytes.Buffer{})
		v.o.Keep = c.keep
		rows := v.rows(c.width)
		if got := strings.Contains(rows[0].text, "until Ctrl-C"); got != c.keep {
			t.Errorf("keep: %v, and the title is %q", c.keep, rows[0].text)
		}
		for _, r := range rows {
			if n := utf8.RuneCountInString(r.text); n >= c.width {
				t.Errorf("%d columns: a row of %d: %q", c.width, n, r.text)
			}
		}
		if got := strings.Contains(rows[3].text, "multicast to RoCE"); got != c.described {
			t.Errorf("%d columns: described: %v", c.width, got)
		}
		for _, want := range []string{"24691356", "24691300", "     56 ", "123ms"} {
			if !strings.Contains(rows[3].text+" ", want) {
				t.Errorf("%q is not in %q", want, rows[3].text)
			}
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"a ⇄ b", 9, "a ⇄ b"}, {"a ⇄ b", 3, "a ⇄"}, {"a ⇄ b", 2, "a"}, {"a  ", 9, "a"}, {"a", 0, ""}, {"a", -1, ""}} {
		if got := truncate(c.text, c.n); got != c.want {
			t.Errorf("truncate(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// TestNoTerminal checks that output that is no terminal gets lines without escape sequences, and nothing before the
// JSON object.
func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	v := shown(&out)
	v.start([]string{"a note"}, "http://127.0.0.1:1/")
	v.draw()
	v.end()
	text := out.String()
	if strings.Contains(text, "\033") || strings.Count(text, v.title()) != 2 || !strings.Contains(text, "http://127.0.0.1:1/\n") || !strings.Contains(text, "a note\n") || !strings.Contains(text, "deliveries\n") {
		t.Errorf("it shows\n%s", text)
	}
	out.Reset()
	v.o.JSON = true
	v.start([]string{"a note"}, "http://127.0.0.1:1/")
	v.draw()
	v.end()
	if out.Len() != 0 {
		t.Errorf("before the JSON object it shows\n%s", out.String())
	}
}

// TestScreen checks that a line of the log goes above the table, which is drawn anew below it.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.table("1\n2\n", 2)
	s.table("3\n4\n", 2)
	fmt.Fprintln(s, "a warning")
	s.table("5\n", 1)
	const erased = "\033[2A\033[J"
	if got, want := out.String(), "1\n2\n"+erased+"3\n4\n"+erased+"a warning\n5\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
