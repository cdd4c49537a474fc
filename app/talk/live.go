// SPDX-License-Identifier: Apache-2.0

package talk

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
	narrow    = 80 // columns where the terminal does not say
)

// Terminal returns f if it is one that a line can live on, else nil.
func Terminal(f *os.File) *os.File {
	if f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return f
	}
	return nil
}

// showLive shows a line that lives until stop is called, which takes it away. Without a terminal nothing is shown.
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
				fmt.Fprint(to, clearLine+cut(line(), columns(to)-1)) // some terminals wrap at the last column
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

// cut returns the first letters of a text.
func cut(text string, letters int) string {
	if r := []rune(text); len(r) > letters {
		return string(r[:max(letters, 0)])
	}
	return text
}

// line says in a line what came so far.
func (t *tally) line(since time.Duration) string {
	sum, streams, rest := t.report()
	var b strings.Builder
	fmt.Fprintf(&b, "%.0f s  %d came", since.Seconds(), sum.Received)
	t.mu.Lock()
	now := time.Now()
	if d := now.Sub(t.lineAt).Seconds(); !t.lineAt.IsZero() && d > 0 {
		fmt.Fprintf(&b, ", %.0f a second", float64(sum.Received-t.lineCame)/d)
	}
	t.lineAt, t.lineCame = now, sum.Received
	t.mu.Unlock()
	fmt.Fprintf(&b, ", %d lost, %d twice, %d late, %d corrupted", sum.Lost, sum.Duplicates, sum.Reordered+sum.Old, sum.Corrupted)
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
