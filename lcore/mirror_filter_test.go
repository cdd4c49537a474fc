// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// One filter finds a packet at both ports; another finds none of it.
func TestMirrorFilters(t *testing.T) {
	s := newRig(t, smallFixture())
	both, none := []string{"received", "sent"}, []string(nil)
	for _, c := range []struct {
		filter  []string
		in, out []string // the points at which a packet towards IB, and one towards RoCE, is mirrored
	}{
		{nil, both, both},
		{[]string{"host", hostIP.String()}, both, both},
		{[]string{"host", nodeIP.String()}, both, both},
		{[]string{"host", nodeIP6.String()}, both, both},
		{[]string{"host", nodeGID.String()}, both, both},
		{[]string{"host", "10.10.0.77"}, none, none},
		{[]string{"qpn", "0x456"}, both, both},
		{[]string{"qpn", "0x700"}, both, both},
		{[]string{"qpn", "0x123"}, both, both},
		{[]string{"qpn", "0x124"}, none, none},
		{[]string{"direction", "ib_to_roce"}, none, both},
		{[]string{"side", "ib"}, both[1:], both[:1]},
		{[]string{"side", "roce", "point", "sent"}, none, both[1:]},
		{[]string{"group", group4.String()}, none, none},
		{[]string{"drop", "any"}, none, none},
	} {
		t.Run(fmt.Sprint(c.filter), func(t *testing.T) {
			s.during(t)
			l := s.filtered(c.filter...)
			s.fromRoCE(v4())
			s.fromIB(received())
			s.toIB(0)
			s.toRoCE(0)
			var seen [2][]string
			for _, x := range l.end() {
				seen[x.Direction] = append(seen[x.Direction], x.Point.String())
			}
			if !slices.Equal(seen[0], c.in) || !slices.Equal(seen[1], c.out) {
				t.Errorf("saw %v and %v, want %v and %v", seen[0], seen[1], c.in, c.out)
			}
		})
	}
}

// A packet without a DETH is found by its destination's QPN, and not by its ICRC, which lies where a source QPN would.
func TestMirrorFiltersWithoutDETH(t *testing.T) {
	s := newRig(t, smallFixture())
	ack := short(v4(), 0x11, 4)
	notQPN := binary.BigEndian.Uint32(ack[len(ack)-4:]) & 0xffffff
	for filter, want := range map[string]int{"0x123": 2, fmt.Sprintf("%#x", notQPN): 0} {
		l := s.filtered("qpn", filter)
		s.fromRoCE(ack)
		if n := len(l.end()); n != want {
			t.Errorf("qpn %s: saw %d points, want %d", filter, n, want)
		}
	}
}
