// SPDX-License-Identifier: Apache-2.0

package console

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/console/ptytest"
)

// TestKeyEnds checks that q and Enter end a running command, that no other key does, and that the terminal is restored.
func TestKeyEnds(t *testing.T) {
	for keys, ends := range map[string]bool{"q": true, "Q": true, "\r": true, "xq": true, "x": false, " ": false} {
		typist, terminal := ptytest.New(t)
		before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		restore := KeyEnds(terminal, func() { close(ended) })
		if _, err := typist.WriteString(keys); err != nil {
			t.Fatal(err)
		}
		patience := 200 * time.Millisecond
		if ends {
			patience = 10 * time.Second
		}
		select {
		case <-ended:
			if !ends {
				t.Errorf("%q ends it", keys)
			}
		case <-time.After(patience):
			if ends {
				t.Errorf("%q does not end it", keys)
			}
		}
		restore()
		if after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS); err != nil || *after != *before {
			t.Errorf("%q: the terminal is left as %+v, %v; it was %+v", keys, after, err, before)
		}
	}
}

// TestKeyEndsElsewhere checks that input that is no terminal is not read.
func TestKeyEndsElsewhere(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	KeyEnds(r, func() { t.Error("a pipe ended it") })()
	if _, err := w.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if n, err := r.Read(b); n != 1 || err != nil {
		t.Errorf("input meant for another reader was consumed: %d %v", n, err)
	}
}
