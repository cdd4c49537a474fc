// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// broken is an output that can be broken.
type broken struct {
	text
	is bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.is {
		return 0, unix.EPIPE
	}
	return b.text.Write(p)
}

// TestUnwritten checks that lines that cannot be written are counted, kept, and reported once when writing works again.
func TestUnwritten(t *testing.T) {
	var out broken
	log, control := New(config.Log{Level: "info", Format: "text"}, &out)
	log.Info("first")
	out.is = true
	for range 3 {
		log.Info("lost")
	}
	if n := control.Unwritten(); n != 3 {
		t.Errorf("%d unwritten, want 3", n)
	}
	out.is = false
	log.With("a", 1).WithGroup("g").Info("second")
	log.Info("third")
	want := []string{"msg=first", "msg=second a=1", "level=WARN msg=log_lost lines=3", "msg=third"}
	got := out.lines()
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
	if recent := strings.Join(control.Recent(10), "\n"); strings.Count(recent, "msg=lost") != 3 || control.Unwritten() != 3 {
		t.Errorf("%d unwritten, and the last lines are\n%s", control.Unwritten(), recent)
	}
}
