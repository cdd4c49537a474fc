// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
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

// A packet without a DETH is found by its destination's QPN, and not by its ICRC, which lies where a source QPN would. A fragment
// that is not the first one has neither, whatever its bytes look like.
func TestMirrorFiltersWithoutDETH(t *testing.T) {
	s := newRig(t, smallFixture())
	ack := short(v4(), 0x11, 4)
	notQPN := binary.BigEndian.Uint32(ack[len(ack)-4:]) & 0xffffff
	for _, c := range []struct {
		name   string
		frame  []byte
		filter string
		want   int
	}{
		{"by its destination", ack, "0x123", 2},
		{"by its ICRC", ack, fmt.Sprintf("%#x", notQPN), 0},
		{"a first fragment", sum(patch(v4(), at4Frag, 0x20, 0)), "0x123", 2},
		{"the last fragment", sum(patch(v4(), at4Frag, 0, 1)), "0x123", 0},
	} {
		l := s.filtered("qpn", c.filter)
		s.fromRoCE(c.frame)
		if n := len(l.end()); n != c.want {
			t.Errorf("%s: qpn %s: saw %d points, want %d", c.name, c.filter, n, c.want)
		}
	}
}

// A filter by VLAN finds a packet of its segment at both ports, also one that InfiniBand sends; one by the number of a
// proxy QP finds the frames of the host's queue pair, on whatever VLAN.
func TestMirrorFiltersByVLAN(t *testing.T) {
	w := twoSegments()
	s := newRig(t, w)
	toSecond := func(m *message) { m.QPN += inSecond }
	steps := []struct {
		what string
		send func()
		vlan string // whose filter sees all of it
	}{
		{"from the first", func() { s.fromRoCE(v4()) }, "0"},
		{"from the second", func() { s.fromRoCE(v4(onSecond)) }, "200"},
		{"to the first's group", func() { s.fromRoCE(v4(to(group4))) }, "0"},
		{"to the second's group", func() { s.fromRoCE(v4(to(group4), onSecond)) }, "200"},
		{"to a host of the first", func() { s.fromIB(received()) }, "0"},
		{"to a host of the second", func() { s.fromIB(received(toSecond)) }, "200"},
		{"from the first's group", func() { s.fromIB(received(toGroup(w.group(group4).MGID))) }, "0"},
		{"from the second's group", func() { s.fromIB(received(toGroup(w.second.group(group4).MGID))) }, "200"},
		{"to a host of the second, dropped", func() { s.fromIB(received(fromNode(inFirstGID, 30), toSecond)) }, "200"},
		{"on a VLAN of nobody, dropped", func() { s.fromRoCE(v4(func(p *roce.Packet) { p.Tag = &frame.VLANFields{VID: 201} })) }, "201"},
		{"to nobody's queue pair, dropped", func() { s.fromIB(received(func(m *message) { m.QPN = 0x999 })) }, "none"},
		{"too short, dropped", func() { s.fromRoCE([]byte{1, 2, 3}) }, "none"},
	}
	for _, c := range steps {
		all := s.filtered()
		by := map[string]*observer{}
		for _, vlan := range []string{"0", "200", "201"} {
			by[vlan] = s.filtered("vlan", vlan)
		}
		c.send()
		s.toIB(0)
		s.toRoCE(0)
		points := pointsOf(all.end())
		if len(points) != 1 {
			t.Fatalf("%s: %v", c.what, points)
		}
		for vlan, o := range by {
			if got := pointsOf(o.end()); vlan == c.vlan && !maps.Equal(got, points) || vlan != c.vlan && len(got) != 0 {
				t.Errorf("%s: vlan %s saw %v of %v", c.what, vlan, got, points)
			}
		}
	}
	proxy := w.second.proxyQP(hostIP, hostQPN).QPN
	o := s.filtered("qpn", fmt.Sprintf("%#x", uint32(proxy)), "vlan", "200")
	s.fromRoCE(v4(onSecond), v4())
	s.toIB(0)
	if got := o.end(); len(got) != 2 {
		t.Errorf("by the proxy QP's number: %d points, want those of one packet", len(got))
	}
}

// A filter by port finds the frames of an Ethernet port, and on InfiniBand the messages of its segments; with a VLAN
// those of one segment alone.
func TestMirrorFiltersByPort(t *testing.T) {
	w := twoPorts()
	w.nodes = append(w.nodes, tables.Node{IP4: inSharedIP, GID: inShared, LID: 32, Partition: sharedPartition})
	s := newRig(t, w)
	if _, err := s.tables.Shared.Put(sharedGroup); err != nil {
		t.Fatal(err)
	}
	by := func(port int, frames ...[]byte) func() {
		return func() { s.arriveBy(port, 0, frames...); s.work() }
	}
	filters := [][]string{{"port", "0"}, {"port", "1"}, {"port", "2"}, {"port", "1", "vlan", "0"}, {"port", "1", "vlan", "200"}, {"port", "0", "side", "ib"}}
	for _, c := range []struct {
		what string
		send func()
		sees []int // how many copies each filter sees
	}{
		{"from the first", by(0, v4()), []int{2, 0, 0, 0, 0, 1}},
		{"from the second", by(1, v4(toSecond)), []int{0, 2, 0, 2, 0, 0}},
		{"to the second's group", by(1, v4(to(group4), toSecond)), []int{0, 2, 0, 2, 0, 0}},
		{"dropped at the second", by(1, v4(toSecond, onSecond)), []int{0, 2, 0, 0, 2, 0}},
		{"too short", by(1, []byte{1, 2, 3}), []int{0, 2, 0, 0, 0, 0}},
		{"to a host of the first", func() { s.fromIB(received()) }, []int{2, 0, 0, 0, 0, 1}},
		{"to a host of the second", func() { s.fromIB(received(func(m *message) { m.QPN += inSecond })) }, []int{0, 2, 0, 2, 0, 0}},
		{"from the second's group", func() { s.fromIB(received(toGroup(w.second.group(group4).MGID))) }, []int{0, 2, 0, 2, 0, 0}},
		{"from a group of both", func() { s.fromIB(received(fromNode(inShared, 32), toGroup(sharedGroup.MGID))) }, []int{2, 2, 0, 2, 0, 1}},
		{"to nobody's queue pair", func() { s.fromIB(received(func(m *message) { m.QPN = 0x999 })) }, []int{0, 0, 0, 0, 0, 0}},
	} {
		for i := 0; i < len(filters); i += lcore.MaxMirrors {
			some := filters[i:min(i+lcore.MaxMirrors, len(filters))]
			var observers []*observer
			for _, f := range some {
				observers = append(observers, s.filtered(f...))
			}
			c.send()
			s.toIB(0)
			s.sentBy(0, 0)
			s.sentBy(1, 0)
			for k, o := range observers {
				if saw := o.end(); len(saw) != c.sees[i+k] {
					t.Errorf("%s: %v saw %s, want %d", c.what, some[k], points(saw), c.sees[i+k])
				}
			}
		}
	}
}

// TestPortFilterText reads ports that there may be, and says which there are of others.
func TestPortFilterText(t *testing.T) {
	if f, err := lcore.ParseFilter([]string{"port", "7", "vlan", "0"}); err != nil || f.String() != "vlan 0 port 7" {
		t.Errorf("%v: %v", err, f)
	}
	for _, text := range []string{"8", "-1", "eth1", ""} {
		_, err := lcore.ParseFilter([]string{"port", text})
		if want := fmt.Sprintf("filter: port %q: this is not the number of an Ethernet port, from 0 to 7", text); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
