// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// text is what a logger writes.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

// lines returns what was written since the last call.
func (x *text) lines() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := strings.TrimSuffix(x.b.String(), "\n")
	x.b.Reset()
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func TestFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out text
		log, _ := New(config.Log{Level: "info", Format: format}, &out)
		log.With("a", 1).WithGroup("g").Info("ready", "name", "x y")
		line := strings.Join(out.lines(), "\n")
		var o map[string]any
		isJSON := json.Unmarshal([]byte(line), &o) == nil
		if isJSON != (format == "json") || isJSON && o["msg"] != "ready" || !isJSON && !strings.Contains(line, `msg=ready a=1 g.name="x y"`) {
			t.Errorf("%s: %s", format, line)
		}
	}
}

// TestValues checks that values with a text form of their own are written in it, in JSON as in text.
func TestValues(t *testing.T) {
	gid := ib.GIDFromAddr(netip.MustParseAddr("10.9.0.7"))
	var nobody *net.TCPAddr
	for _, c := range []struct {
		value any
		want  string
	}{
		{gid, `"::ffff:10.9.0.7"`},
		{ib.LID(0xc001), `"0xc001"`},
		{ib.QPN(18), `"0x000012"`},
		{ib.PKey(0xffff), `"0xffff"`},
		{ib.GUID(7), `"0x0000000000000007"`},
		{frame.MAC{2, 0, 0, 0, 0, 1}, `"02:00:00:00:00:01"`},
		{[]ib.GID{gid, gid}, `["::ffff:10.9.0.7","::ffff:10.9.0.7"]`},
		{[]ib.LID{}, `[]`},
		{[]int{1, 2}, `[1,2]`},
		{netip.MustParseAddr("10.9.0.1"), `"10.9.0.1"`},
		{[]netip.Addr{netip.MustParseAddr("10.9.0.1")}, `["10.9.0.1"]`},
		{nobody, `"<nil>"`},
		{errors.New("away"), `"away"`},
		{time.Second, `1000000000`},
		{ib.SL(3), `3`},
		{uint16(512), `512`},
		{nil, `null`},
	} {
		var out text
		log, _ := New(config.Log{Level: "info", Format: "json"}, &out)
		log.With("before", c.value).WithGroup("g").Info("host_learned", "value", c.value)
		var o struct {
			Before json.RawMessage
			G      struct{ Value json.RawMessage }
		}
		line := strings.Join(out.lines(), "\n")
		err := json.Unmarshal([]byte(line), &o)
		if err != nil || string(o.G.Value) != c.want || string(o.Before) != c.want {
			t.Errorf("%T: %s, want %s (%v)", c.value, line, c.want, err)
		}
	}
}

// TestLevel changes the level while the logger, and one made of it, are in use.
func TestLevel(t *testing.T) {
	var out text
	log, control := New(config.Log{Level: "warn", Format: "text"}, &out)
	derived := log.With("a", 1)
	for _, c := range []struct {
		level string
		want  int
		err   bool
	}{{"", 2, false}, {"debug", 8, false}, {"info", 6, false}, {"error", 2, false}, {"loud", 2, true}, {"INFO", 2, true}} {
		if c.level != "" {
			if err := control.SetLevel(c.level); (err != nil) != c.err {
				t.Errorf("%s: %v", c.level, err)
			}
		}
		if c.level == "" {
			c.want = 4 // warn and error, of both
		}
		for _, l := range []interface {
			Debug(string, ...any)
			Info(string, ...any)
			Warn(string, ...any)
			Error(string, ...any)
		}{log, derived} {
			l.Debug("a")
			l.Info("b")
			l.Warn("c")
			l.Error("d")
		}
		if got := out.lines(); len(got) != c.want {
			t.Errorf("at %s: %d lines, want %d: %q", control.Level(), len(got), c.want, got)
		}
	}
	if control.Level() != "error" {
		t.Errorf("level %s", control.Level())
	}
}

// TestLimit floods one event: others are still logged, and the suppressed lines are reported once, when the flood ends.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out text
		log, control := New(config.Log{Level: "info", Format: "text"}, &out)
		for range 100 {
			log.With("x", 1).Info("host_learned")
		}
		log.Info("ready")
		if got := out.lines(); len(got) != most+1 || !strings.Contains(got[most], "ready") {
			t.Errorf("%d lines: %q", len(got), got)
		}
		time.Sleep(3 * window)
		got := out.lines()
		if len(got) != 1 || !strings.Contains(got[0], "level=WARN msg=suppressed event=host_learned lines=80") {
			t.Errorf("after it calmed: %q", got)
		}
		if n := control.Suppressed(); n != 80 {
			t.Errorf("%d suppressed", n)
		}
		log.Info("host_learned")
		time.Sleep(3 * window)
		if got := out.lines(); len(got) != 1 {
			t.Errorf("one line later: %q", got)
		}
	})
}

// TestLongFlood checks that a flood that does not end is reported each minute, and that all of its lines are either
// written or counted in a report.
func TestLongFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out text
		log, control := New(config.Log{Level: "info", Format: "json"}, &out)
		const n = 100 * 200 // for 200 seconds
		for range n {
			log.Info("host_learned")
			time.Sleep(10 * time.Millisecond)
		}
		control.Flush()
		written, reports, missing := 0, 0, 0
		for _, line := range out.lines() {
			var o struct {
				Msg   string
				Lines int
			}
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			if o.Msg == "suppressed" {
				reports++
				missing += o.Lines
			} else {
				written++
			}
		}
		if written+missing != n || uint64(missing) != control.Suppressed() || written > 201*most || reports < 3 || reports > 6 {
			t.Errorf("%d lines are written, %d are missing by %d reports; %d there were", written, missing, reports, n)
		}
		control.Flush()
		if got := out.lines(); got != nil {
			t.Errorf("told of twice: %q", got)
		}
	})
}

// TestManyEvents checks that the number of limits is bounded.
func TestManyEvents(t *testing.T) {
	log, control := New(config.Log{Level: "info", Format: "text"}, io.Discard)
	for i := range 3 * eventsMost {
		log.Info(fmt.Sprint("event", i))
	}
	if n := len(control.limits); n > eventsMost+1 {
		t.Errorf("%d limits", n)
	}
	control.Flush()
}

func TestRecent(t *testing.T) {
	log, control := New(config.Log{Level: "info", Format: "text"}, io.Discard)
	if got := control.Recent(5); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	for i := range kept + 10 {
		log.Info(fmt.Sprint("event", i), "long", strings.Repeat("x", i*10))
	}
	for _, c := range []struct {
		n, want int
		first   string
	}{{0, 0, ""}, {-1, 0, ""}, {1, 1, "event1009"}, {3, 3, "event1007"}, {1 << 30, kept, "event10 "}} {
		got := control.Recent(c.n)
		if len(got) != c.want || c.want > 0 && !strings.Contains(got[0], c.first) {
			t.Errorf("the last %d: %d, first %.80q", c.n, len(got), got[:min(len(got), 1)])
		}
	}
	if n := len(control.Recent(1)[0]); n > longest {
		t.Errorf("a line of %d bytes is kept", n)
	}
}

// TestManyAtOnce logs, sets and reads from several goroutines, for the race detector.
func TestManyAtOnce(t *testing.T) {
	log, control := New(config.Log{Level: "info", Format: "text"}, io.Discard)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 200 {
				log.Info(fmt.Sprint("event", i%2))
				_ = control.SetLevel("info")
				control.Recent(10)
			}
		})
	}
	all.Wait()
	control.Flush()
	if control.Suppressed() == 0 {
		t.Error("nothing was suppressed")
	}
}
