// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/stamp"
	"causeway/lcore"
)

// sent returns a flow to two receivers, of n messages, and what arrives of message number at each.
func sent(n int) (*flow, func(number int) []byte) {
	f := newFlow("a → b", "", 2)
	var payloads [][]byte
	f.transmit = func(_ uint64, payload []byte) error {
		payloads = append(payloads, bytes.Clone(payload))
		return nil
	}
	for range n {
		f.sendNext()
	}
	return f, func(number int) []byte { return payloads[number-1] }
}

// TestAccounting checks that each thing that can go wrong with a message makes the result not OK, and is reported.
func TestAccounting(t *testing.T) {
	const n = 100
	for _, c := range []struct {
		name string
		// After all messages have arrived but number 7 at the second receiver.
		spoil     func(f *flow, message func(int) []byte)
		lost      bool   // it does not arrive there
		complaint string // "": all is well
	}{
		{"all is well", nil, false, ""},
		{"one is lost", nil, true, "1 did not arrive"},
		{"one is damaged", func(f *flow, m func(int) []byte) {
			b := bytes.Clone(m(7))
			b[len(b)-1] ^= 1
			f.arrive(1, b)
		}, true, "1 did not arrive, 1 were damaged"},
		{"one is cut", func(f *flow, m func(int) []byte) { f.arrive(1, m(7)[:len(m(7))-1]) }, true, "1 did not arrive, 1 were damaged"},
		{"one comes twice", func(f *flow, m func(int) []byte) { f.arrive(1, m(9)) }, false, "1 arrived twice"},
		{"one comes twice instead of another", func(f *flow, m func(int) []byte) { f.arrive(1, m(9)) }, true, "1 did not arrive, 1 arrived twice"},
		{"one that is nobody's", func(f *flow, _ func(int) []byte) { f.arrive(0, []byte("who knows what this is")) }, false, "1 were damaged"},
		{"one that was not sent yet", func(f *flow, _ func(int) []byte) { f.arrive(0, stamp.Message(n+1, sizeOf(n+1))) }, false, "1 were damaged"},
		{"number 0", func(f *flow, _ func(int) []byte) { f.arrive(0, stamp.Message(0, sizeOf(0))) }, false, "1 were damaged"},
		{"one could not be sent", func(f *flow, m func(int) []byte) {
			f.transmit = func(uint64, []byte) error { return errors.New("no buffer space") }
			f.sendNext()
		}, false, "2 did not arrive, 1 could not be sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, message := sent(n)
			for number := 1; number <= n; number++ {
				for receiver := range 2 {
					if number != 7 || receiver != 1 || !c.lost {
						f.arrive(receiver, message(number))
					}
				}
			}
			if c.spoil != nil {
				c.spoil(f, message)
			}
			r := &result{flows: []*flow{f}}
			r.take(lcore.Counters{})
			if got := r.Flows[0].complaint(); got != c.complaint || r.OK != (c.complaint == "") {
				t.Errorf("OK: %v, complaint %q, want %q", r.OK, got, c.complaint)
			}
			wantReported(t, r, c.complaint)
		})
	}
}

// wantReported checks that both forms of the result, text and JSON, report the outcome.
func wantReported(t *testing.T, r *result, complaint string) {
	t.Helper()
	var plain, asJSON bytes.Buffer
	if err := errors.Join(r.write(Options{Out: &plain}), r.write(Options{Out: &asJSON, JSON: true})); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "Everything arrived.") != r.OK || !strings.Contains(plain.String(), complaint) {
		t.Errorf("it says\n%s", plain.String())
	}
	var back result
	if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || back.OK != r.OK || len(back.Flows) != len(r.Flows) {
		t.Errorf("%v in\n%s", err, asJSON.String())
	}
}

// TestConservation checks that a result whose packets do not add up, or with a flow that sent nothing, is not OK.
func TestConservation(t *testing.T) {
	var c lcore.Counters
	c.Direction[lcore.IBToRoCE] = lcore.DirectionCounters{Received: 3, Sent: 1, Drops: map[lcore.Drop]uint64{lcore.Drops()[0]: 1}}
	r := &result{}
	if r.take(c); r.OK || r.Conserved || !r.RoCEToIB.Conserved {
		t.Errorf("%+v", r)
	}
	wantReported(t, r, "DOES NOT ADD UP")
	r = &result{flows: []*flow{newFlow("silent", "", 1)}}
	if r.take(lcore.Counters{}); r.OK || !r.Conserved {
		t.Errorf("%+v", r)
	}
	wantReported(t, r, "nothing was sent")
}

// TestWindow checks that no more than a window is under way, whatever the receiver's pace, that a lost message does not
// stop the flow, and that the flow ends when everything has arrived, or nothing comes any more.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name string
		lose uint64        // every so many; 0: none
		slow time.Duration // how long a message is under way
		ends time.Duration // at most so long after the flow's time is over
		lost bool
	}{
		{"quick", 0, time.Millisecond, 10 * time.Millisecond, false},
		{"slow", 0, time.Second, 2 * time.Second, false},
		{"lossy", 10, time.Millisecond, lossTimeout + time.Second, true},
		{"dead", 1, 0, lossTimeout + time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlow("a → b", "", 1)
				most := uint64(0)
				f.transmit = func(number uint64, payload []byte) error {
					most = max(most, f.due()-f.arrived.Load())
					if c.lose == 0 || number%c.lose != 0 {
						payload := bytes.Clone(payload)
						time.AfterFunc(c.slow, func() { f.arrive(0, payload) })
					}
					return nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				runFlows(ctx, []*flow{f})
				if took := time.Since(began); took < time.Minute || took > time.Minute+c.ends {
					t.Errorf("took %v", took)
				}
				missing := f.due() - f.arrived.Load()
				if (missing > 0) != c.lost || f.sent.Load() < 100 || !c.lost && most > window {
					t.Errorf("%d sent, %d missing, at most %d on the way", f.sent.Load(), missing, most)
				}
			})
		})
	}
}
