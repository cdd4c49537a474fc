// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// slow is an output whose reader takes one line for each value on the channel, or rejects it.
type slow struct {
	text
	next chan error
}

func (s *slow) Write(p []byte) (int, error) {
	if err := <-s.next; err != nil {
		return 0, err
	}
	return s.text.Write(p)
}

// TestOutputFull checks that nobody who logs waits for a reader that does not read, that lines without room are
// counted, that no others are lost, and that the loss is reported where it was.
func TestOutputFull(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		s := &slow{next: make(chan error)}
		out := NewOutput(s)
		log, control := New(config.Log{Level: "info", Format: format}, out)
		long := strings.Repeat("x", queueBytes/64)
		for i := range 100 { // of many events: none has too many
			log.Info(fmt.Sprint("event", i), "long", long)
		}
		lost := control.Unwritten()
		if lost < 30 || lost > 40 {
			t.Fatalf("%d of 100 lines had no room", lost)
		}
		close(s.next)
		out.Flush()
		log.Info("after")
		control.Flush()
		out.Close()
		got := s.lines()
		if want := 100 - int(lost) + 2; len(got) != want {
			t.Fatalf("%d lines, want %d", len(got), want)
		}
		report := 0
		for i, line := range got {
			if strings.Contains(line, "log_lost") && strings.Contains(line, fmt.Sprint(lost)) {
				report = i
			}
		}
		if report == 0 || control.Unwritten() != lost {
			t.Errorf("%s: no report of %d lines in\n%.100s", format, lost, got)
		}
		if recent := control.Recent(1000); len(recent) != 102 {
			t.Errorf("%d lines are kept", len(recent))
		}
		if _, err := out.Write(nil); err == nil {
			t.Error("it takes lines after its end")
		}
	}
}

// TestOutputBroken checks that a loss is reported when writing works again, as a whole, and not when the report itself
// is lost.
func TestOutputBroken(t *testing.T) {
	s := &slow{next: make(chan error)}
	out := NewOutput(s)
	log, control := New(config.Log{Level: "info", Format: "text"}, out)
	for i, errs := range [][]error{{nil}, {unix.EPIPE}, {unix.EPIPE}, {nil, unix.EPIPE}, {nil, nil}} {
		log.Info(fmt.Sprint("line", i))
		for _, err := range errs {
			s.next <- err
		}
	}
	out.Close()
	got := s.lines()
	want := []string{"msg=line0", "msg=line3", "msg=line4", "level=WARN msg=log_lost lines=2"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
	if n := control.Unwritten(); n != 2 {
		t.Errorf("%d unwritten, want 2", n)
	}
}

// TestOutputEnds checks that the end waits for a slow reader, and not for one that does not read.
func TestOutputEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{next: make(chan error)}
		out := NewOutput(s)
		log, _ := New(config.Log{Level: "info", Format: "text"}, out)
		for i := range 10 {
			log.Info(fmt.Sprint("event", i))
		}
		var reader sync.WaitGroup
		reader.Go(func() {
			for range 9 {
				time.Sleep(patience - time.Second)
				s.next <- nil
			}
		})
		begun := time.Now()
		out.Close()
		if n, took := len(s.lines()), time.Since(begun); n != 9 || took > 11*patience {
			t.Errorf("%d lines were written, in %v", n, took)
		}
		reader.Wait()
		s.next <- nil
	})
}
