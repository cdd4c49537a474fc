// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"causeway/ibside/stamp"
)

// received makes a message with a latency.
func received(stream uint32, number uint64, took time.Duration) *Message {
	at := time.Unix(1000, 0).Add(time.Duration(number) * time.Millisecond)
	b := make([]byte, 64)
	stamp.Fill(b, 1)
	stamp.Stamp{Stream: stream, Number: number, Time: uint64(at.Add(-took).UnixNano()), Seed: 1}.Put(b)
	return &Message{At: at, From: netip.MustParseAddr("10.9.0.1"), SrcQP: 7, To: netip.MustParseAddr("239.1.2.3"), Payload: b}
}

func TestTally(t *testing.T) {
	tally := newTally()
	for n := uint64(1); n <= 1000; n++ {
		tally.note(received(1, n, time.Duration(n)*time.Microsecond))
	}
	tally.note(received(1, 0, 0)) // the message of a call
	damaged := received(1, 1001, 0)
	damaged.Payload[50]++
	tally.note(damaged)
	tally.note(received(1, 1001, 0)) // intact now, but not the first
	badStamp := received(1, 1002, 0)
	badStamp.Payload[20]++
	tally.note(badStamp)
	tally.note(&Message{Payload: []byte("somebody else's")})
	tally.note(received(2, 5, -time.Millisecond))
	sum, each, rest := tally.report()
	if len(each) != 2 || each[0].Stream != "0x00000001" || each[0].From != "10.9.0.1" || each[0].To != "239.1.2.3" || each[0].QPN != "0x000007" {
		t.Fatalf("%+v", each)
	}
	if s := each[0]; s.Received != 1002 || s.Unique != 1001 || s.Whole != 1000 || s.Corrupted != 1 || s.Duplicates != 1 || s.Lost != 0 || s.Bytes != 1002*64 ||
		s.Rate < 999 || s.Rate > 1002 {
		t.Errorf("%+v", s)
	}
	within := func(got, want float64) bool { return got > want*0.995 && got < want*1.005 }
	if l := each[0].Latency; l.Min != 0 || !within(l.P50, 500) || !within(l.P99, 990) || !within(l.P999, 999) || l.Max != 1000 || l.Negative != 0 {
		t.Errorf("%+v", l)
	}
	if l := each[1].Latency; l.Negative != 1 || l.Min != -1000 || l.Max != -1000 || l.P50 != -1000 {
		t.Errorf("negative: %+v", l)
	}
	if rest != (Rest{Foreign: 1, BadStamp: 1}) || sum.Received != 1004 || sum.Whole != 1001 || sum.Corrupted != 2 || sum.Before != 4 || sum.Latency.Negative != 1 {
		t.Errorf("sum %+v, rest %+v", sum, rest)
	}
	if whole, last := tally.progress(); whole != 1001 || last.IsZero() {
		t.Errorf("%d were received intact, the last %v", whole, last)
	}
}

func TestTallyBounded(t *testing.T) {
	tally := newTally()
	for n := range uint32(maxStreams + 10) {
		tally.note(received(n, 1, 0))
	}
	if _, each, rest := tally.report(); len(each) != maxStreams || rest.Untracked != 10 {
		t.Errorf("%d streams, %+v", len(each), rest)
	}
	tally.note(received(3, 2, time.Hour)) // longer than a histogram holds
	if sum, _, _ := tally.report(); sum.Received != maxStreams+1 || sum.Latency.Max != 3600e6 {
		t.Errorf("%+v", sum)
	}
}

// TestPercentiles checks that percentiles among negative latencies are the lowest, and that all are in order.
func TestPercentiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l latency
		for _, n := range rapid.SliceOfN(rapid.Int64Range(-1e9, 1e11), 1, 200).Draw(t, "took") {
			l.record(time.Duration(n))
		}
		last := l.min
		for _, p := range []float64{0, 1, 50, 90, 99, 99.9, 100} {
			x := l.at(p)
			if x < last || x > l.max {
				t.Fatalf("%v%%: %v after %v; from %v to %v", p, x, last, l.min, l.max)
			}
			last = x
		}
	})
}

func TestText(t *testing.T) {
	tally := newTally()
	for _, n := range []uint64{3, 5, 4, 4, 7} {
		tally.note(received(1, n, time.Duration(n)*time.Microsecond))
	}
	tally.note(received(1, 8, -time.Microsecond))
	tally.note(&Message{Payload: []byte("x")})
	r := ListenReport{On: "packet:eth0", Seconds: 1, Rejected: map[string]uint64{"qkey": 2, "icrc": 0}, Expect: 10}
	r.Sum, r.Streams, r.Rest = tally.report()
	var b bytes.Buffer
	r.Write(&b)
	for _, part := range []string{
		"packet:eth0: messages 6, streams 1, in 1.00 s", "stream 0x00000001 from 10.9.0.1 QPN 0x000007 to 239.1.2.3:", "1 lost, 1 duplicates, 0 corrupted, 1 reordered (by up to 1)",
		"2 numbers below the lowest", "1 of these are negative", "1 messages were received that are not", ": qkey 2\n", "10 different messages were expected, 5 were received intact",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, &b)
		}
	}
	if line := tally.line(time.Second); !strings.Contains(line, "6 received, 1 lost, 1 duplicates, 1 reordered, 0 corrupted, 1 foreign, median ") {
		t.Errorf("the line: %s", line)
	}
	if sum := r.Sum; sum.Rate != r.Streams[0].Rate {
		t.Errorf("the only stream came at %v a second, all at %v", r.Streams[0].Rate, sum.Rate)
	}
	for us, want := range map[float64]string{0: "0s", 1.234: "1.2µs", 99.96: "100µs", 123.4: "123µs", 4567: "4.57ms", 5e6: "5s", 3600e6: "1h0m0s", -1500: "-1.5ms"} {
		if got := shortly(us); got != want {
			t.Errorf("%v µs: %s, want %s", us, got, want)
		}
	}
}

// TestLive checks that the progress line is redrawn in place, cut to the terminal's width, and removed at the end.
func TestLive(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if Terminal(out) != nil || Terminal(nil) != nil {
		t.Error("a pipe is no terminal")
	}
	drawn := make(chan struct{}, 10)
	stop := showLive(out, func() string { drawn <- struct{}{}; return strings.Repeat("µ", 200) })
	<-drawn
	<-drawn
	stop()
	out.Close()
	b, err := io.ReadAll(in)
	if line := clearLine + strings.Repeat("µ", narrow-1); err != nil || !strings.HasPrefix(string(b), line+line) || !strings.HasSuffix(string(b), "µ"+clearLine) {
		t.Errorf("%q, %v", b, err)
	}
	showLive(nil, nil)()
}
