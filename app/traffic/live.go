// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	liveEvery = 250 * time.Millisecond
	clearLine = "\r\033[K"
	narrow    = 80 // columns, if the terminal does not report them
)

// Terminal returns f if it is a terminal that can show the status line, else nil.
func Terminal(f *os.File) *os.File {
	if f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return f
	}
	return nil
}

// showLive shows a status line until stop is called, which removes it. Without a terminal nothing is shown.
func showLive(to *os.File, line func() string) (stop func()) {
	if to == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprint(to, clearLine+truncate(line(), columns(to)-1)) // some terminals wrap at the last column
			case <-end:
				fmt.Fprint(to, clearLine)
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

func columns(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return narrow
}

// truncate returns the first n letters of a text.
func truncate(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:max(n, 0)])
	}
	return text
}

// line returns the status line.
func (t *tally) line(since time.Duration) string {
	sum, streams, rest := t.report()
	var b strings.Builder
	fmt.Fprintf(&b, "%.0f s  %d received", since.Seconds(), sum.Received)
	t.mu.Lock()
	now := time.Now()
	if d := now.Sub(t.lineAt).Seconds(); !t.lineAt.IsZero() && d > 0 {
		fmt.Fprintf(&b, ", %.0f a second", float64(sum.Received-t.lineReceived)/d)
	}
	t.lineAt, t.lineReceived = now, sum.Received
	t.mu.Unlock()
	fmt.Fprintf(&b, ", %d lost, %d duplicates, %d reordered, %d corrupted", sum.Lost, sum.Duplicates, sum.Reordered+sum.Old, sum.Corrupted)
	if rest.Foreign > 0 {
		fmt.Fprintf(&b, ", %d foreign", rest.Foreign)
	}
	if sum.Unique > 0 {
		fmt.Fprintf(&b, ", median %s, 99%% %s", shortly(sum.Latency.P50), shortly(sum.Latency.P99))
	}
	if len(streams) > 1 {
		fmt.Fprintf(&b, ", %d streams", len(streams))
	}
	return b.String()
}
