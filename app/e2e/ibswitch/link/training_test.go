// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"testing"
	"time"
)

func TestTraining(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		up     bool // before
		step   func(t *training) bool
		events []bool
		answer bool
		then   bool
	}{
		{"the other end appears", false, func(t *training) bool { return t.heard(now, true, 1) }, []bool{true}, true, true},
		{"the other end is not plugged in", false, func(t *training) bool { return t.heard(now, false, 1) }, nil, false, false},
		{"all is well", true, func(t *training) bool { return t.heard(now, true, 1) }, nil, false, true},
		{"the other end trains anew", true, func(t *training) bool { return t.heard(now, true, 2) }, []bool{false, true}, false, true},
		{"the other end is pulled", true, func(t *training) bool { return t.heard(now, false, 1) }, []bool{false}, true, false},
		{"just in time", true, func(t *training) bool { t.settle(now.Add(trainingTimeout - 1)); return false }, nil, false, true},
		{"silence", true, func(t *training) bool { t.settle(now.Add(trainingTimeout)); return false }, []bool{false}, false, false},
		{"retrain", true, func(t *training) bool { t.retrain(); return false }, []bool{false, true}, false, true},
		{"retrain what is down", false, func(t *training) bool { t.retrain(); return false }, nil, false, false},
		{"pulled", true, func(t *training) bool { t.present = false; t.settle(now); return false }, []bool{false}, false, false},
		{"pulled: no answer without end", false, func(t *training) bool {
			t.present, t.peerPresent = false, true
			return t.heard(now, true, 1)
		}, nil, false, false},
	} {
		var events []bool
		tr := &training{present: true, changed: func(up bool) { events = append(events, up) }}
		if c.up {
			tr.heard(now, true, 1)
		}
		events = nil
		if answer := c.step(tr); answer != c.answer || tr.up != c.then || !slices.Equal(events, c.events) {
			t.Errorf("%s: events %v, answer %v, up %v", c.name, events, answer, tr.up)
		}
	}
}

// TestFrame has the bytes of guest/shca/cable.c.
func TestFrame(t *testing.T) {
	b := make([]byte, 64)
	putTraining(b, true, 0xab)
	if string(b[12:22]) != "\x88\xb5\x02\x01\xab\x00\x00\x00\x00\x00" {
		t.Errorf("training: % x", b[12:22])
	}
	putHeader(b, kindPacket, 3)
	if string(b[12:22]) != "\x88\xb5\x01\x00\x00\x00\x00\x03\x00\x00" {
		t.Errorf("packet: % x", b[12:22])
	}
	copy(b[22:], "abc")
	for n, want := range map[int]string{25: "abc", 64: "abc", 24: "", 21: ""} {
		if kind, packet := parseFrame(b[:n]); string(packet) != want || (kind == kindPacket) != (want != "") {
			t.Errorf("%d bytes: kind %d, %q", n, kind, packet)
		}
	}
}
