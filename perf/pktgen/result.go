// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"causeway/perf/trial"
)

// Result is the counts of a run. Pktgen receives the echoes of nodes, if there are any, and frames of the bridge's own.
type Result struct {
	Pktgen      string   `json:"pktgen"` // its version, with DPDK's
	Profile     string   `json:"profile"`
	Port        string   `json:"port"`
	FrameBytes  float64  `json:"frame_bytes"` // mean length without FCS
	SentPPS     float64  `json:"sent_pps"`    // median over the seconds
	ReceivedPPS float64  `json:"received_pps"`
	Sent        uint64   `json:"sent"`
	Received    uint64   `json:"received"`
	SendErrors  uint64   `json:"send_errors"`
	Missed      uint64   `json:"missed"` // by pktgen's port
	Loss        float64  `json:"loss"`   // ratio of sent messages without an echo
	DUT         *DUT     `json:"bridge,omitempty"`
	Seconds     []Second `json:"seconds"`
}

// Write prints the result as tables.
func (r Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "second\tsent\treceived\tsend errors\tmissed\t\n")
	for i, s := range r.Seconds {
		name := fmt.Sprint(s.Second)
		if i == len(r.Seconds)-1 {
			name = "end"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", name, s.Tx, s.Rx, s.TxErrors, s.RxMissed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s, %s, %s\n", r.Pktgen, r.Profile, r.Port)
	fmt.Fprintf(w, "\tMpps\tGbit/s\tframes\t\n")
	row := func(name string, pps float64, n uint64) {
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%d\t\n", name, pps/1e6, pps*r.FrameBytes*8/1e9, n)
	}
	row("sent", r.SentPPS, r.Sent)
	row("received", r.ReceivedPPS, r.Received)
	fmt.Fprintf(w, "lost\t\t%.4f %%\t%d\t\n", r.Loss*100, r.lost())
	if err := w.Flush(); err != nil {
		return err
	}
	if r.DUT != nil {
		return r.DUT.write(out, r.Sent)
	}
	return nil
}

// Kept returns an error when pktgen has not sent so many packets a second: within a tenth, or what a second brings,
// which a busy machine may be late.
func (r Result) Kept(pps float64) error {
	if len(r.Seconds) < 3 || pps <= 0 {
		return nil
	}
	sending := r.Seconds[len(r.Seconds)-2].At.Seconds() // the last line comes after it has stopped
	want := pps * sending
	if off := math.Abs(float64(r.Sent) - want); off > max(want/10, pps) {
		return fmt.Errorf("pktgen: -pps %g was not kept: %d frames were sent in %.1f s, and %.0f were asked for", pps, r.Sent, sending, want)
	}
	return nil
}

func (r Result) lost() uint64 { return r.Sent - min(r.Sent, r.Received) }

// complete computes the totals from the seconds.
func (r *Result) complete() {
	if len(r.Seconds) == 0 {
		return
	}
	first, last := r.Seconds[0], r.Seconds[len(r.Seconds)-1]
	r.Sent, r.Received = last.Tx-first.Tx, last.Rx-first.Rx
	r.SendErrors, r.Missed = last.TxErrors-first.TxErrors, last.RxMissed-first.RxMissed
	if r.Sent > 0 {
		r.Loss = float64(r.lost()) / float64(r.Sent)
	}
	r.SentPPS = r.median(func(s Second) uint64 { return s.Tx })
	r.ReceivedPPS = r.median(func(s Second) uint64 { return s.Rx })
}

func (r *Result) median(of func(Second) uint64) float64 {
	var rates []float64
	for i := 1; i < len(r.Seconds)-1; i++ { // the last one has only messages that were still in flight
		if took := r.Seconds[i].At - r.Seconds[i-1].At; took > 0 {
			rates = append(rates, float64(of(r.Seconds[i])-of(r.Seconds[i-1]))/took.Seconds())
		}
	}
	return trial.Median(rates)
}

// transcript is pktgen's output, from which it takes the script's lines as they are written.
type transcript struct {
	text    bytes.Buffer
	read    int // bytes of text in complete lines
	begun   time.Time
	seconds []Second
	begin   func() // called at the first of them; may be nil
}

var (
	countLine = regexp.MustCompile(`CAUSEWAY second=(\d+) tx=(\d+) rx=(\d+) tx_errors=(\d+) rx_missed=(\d+)`)
	cursor    = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b[78]|\r`)
	version   = regexp.MustCompile(`Pktgen (\d+\.\d+\.\d+) (?:dpdk=|\()(?:DPDK )?([^)\s]+)`)
	problems  = []*regexp.Regexp{
		regexp.MustCompile(`CAUSEWAY error=(.*)`),
		regexp.MustCompile(`PANIC in .*\n(.*)`),
		regexp.MustCompile(`\*\*\* (Error .*)`),
		regexp.MustCompile(`(?m)^EAL: ((?:Error|FATAL|Cannot|Can't|No free|Not enough|Invalid|failed|Couldn't).*)`),
		regexp.MustCompile(`(_pcap_open: .*)`),
		regexp.MustCompile(`Pktgen (got a Segment Fault)`),
	}
)

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	now := time.Now()
	t.text.Write(p)
	fresh := t.text.Bytes()[t.read:]
	end := bytes.LastIndexByte(fresh, '\n') + 1
	for _, m := range countLine.FindAllSubmatch(fresh[:end], -1) {
		if t.begun.IsZero() {
			t.begun = now
			if t.begin != nil {
				t.begin()
			}
		}
		var v [5]uint64
		for i := range v {
			v[i], _ = strconv.ParseUint(string(m[i+1]), 10, 64) // digits, by the pattern
		}
		t.seconds = append(t.seconds, Second{int(v[0]), now.Sub(t.begun), v[1], v[2], v[3], v[4]})
	}
	t.read += end
	return len(p), nil
}

func (t *transcript) result() Result {
	r := Result{Seconds: t.seconds, Pktgen: "Pktgen of an unknown version"}
	if m := version.FindStringSubmatch(t.lines()); m != nil {
		r.Pktgen = fmt.Sprintf("Pktgen %s, DPDK %s", m[1], m[2])
	}
	r.complete()
	return r
}

// lines is the text without terminal control sequences.
func (t *transcript) lines() string { return cursor.ReplaceAllString(t.text.String(), "") }

// problem is pktgen's error message, in one line; "": none.
func (t *transcript) problem() string {
	text := t.lines()
	for _, p := range problems {
		if m := p.FindStringSubmatch(text); m != nil {
			return strings.TrimSpace(m[1])
		}
	}
	return ""
}

// last is the last line that is not empty.
func (t *transcript) last() string {
	lines := strings.FieldsFunc(t.lines(), func(c rune) bool { return c == '\n' })
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return "nothing"
}
