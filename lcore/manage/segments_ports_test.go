// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"slices"
	"testing"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// secondPortMAC is that of a second Ethernet port.
var secondPortMAC = frame.MAC{2, 0, 0, 0, 1, 0xfe}

// twoPorts is twoSegments, but the second is another port, untagged, too.
func twoPorts(c *manage.Config, p *ibPort) {
	twoSegments(c, p)
	x := &c.More[0]
	x.Place, x.MAC, x.Label = manage.Place{Port: 1}, secondPortMAC, "ring:b/0"
}

// giveBy is give for a frame that comes by a port. It returns by which ports answers left, too.
func (s *rig) giveBy(port uint8, b []byte) (sent [][]byte, by []uint8) {
	s.w.takePorts()
	s.w.give(manage.Punted{Data: b, Port: port})
	s.settle()
	return s.w.take(), s.w.takePorts()
}

// TestPorts checks that a segment of each of two ports answers by its own port, with that port's MAC address, and learns its
// own hosts, whose addresses and VLAN are the same.
func TestPorts(t *testing.T) {
	bubble(t, "answers", portsAnswer)
	bubble(t, "hosts", portsLearn)
	bubble(t, "change", portsChange)
}

func portsAnswer(t *testing.T) {
	s := start(t, twoPorts)
	for port, mac := range []frame.MAC{bridgeMAC, secondPortMAC} {
		sent, by := s.giveBy(uint8(port), arp(hostLink, 1, host4, bridge4))
		if len(sent) != 1 || !slices.Equal(by, []uint8{uint8(port)}) {
			t.Fatalf("port %d: %d answers, by ports %v", port, len(sent), by)
		}
		if f := frames(t, sent)[0]; f.Eth.Src() != mac {
			t.Errorf("port %d answers from %v", port, f.Eth.Src())
		}
	}
	if sent, _ := s.giveBy(1, arp(hostLink, 1, host4, inFirst)); len(sent) != 0 {
		t.Error("the second port answers for a node of the first's partition")
	}
	if sent, _ := s.giveBy(2, arp(hostLink, 1, host4, bridge4)); len(sent) != 0 {
		t.Error("a port that is no segment's answers")
	}
}

func portsLearn(t *testing.T) {
	s := start(t, twoPorts)
	s.giveBy(0, arp(hostLink, 1, host4, bridge4))
	s.giveBy(1, arp(otherLink, 1, host4, bridge4))
	first, _, known := s.tables.In(0).Hosts.Find(host4)
	second, _, too := s.tables.In(1).Hosts.Find(host4)
	if !known || !too || first.MAC != hostMAC || second.MAC != otherMAC {
		t.Errorf("the hosts are %+v and %+v", first, second)
	}
	s.count()
	if x := s.loop.Status().Segments; len(x) != 2 || x[0].Name != "untagged" || x[1].Name != "ring:b/0" || x[1].Port != 1 || x[1].Hosts != 1 {
		t.Errorf("segments %+v", x)
	}
}

// portsChange removes the first port's segment, and adds a host to the other.
func portsChange(t *testing.T) {
	s := start(t, twoPorts)
	second := s.cfg.More[0]
	second.Hosts = []tables.Host{staticHost(host4)}
	var numbers map[manage.Place]uint8
	c := manage.Change{Segment: second, Nodes: s.cfg.Nodes, Commit: func(n map[manage.Place]uint8) error { numbers = n; return nil }}
	if err := s.loop.Change(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(numbers) != 1 || numbers[manage.Place{Port: 1}] != 1 {
		t.Errorf("numbers %v", numbers)
	}
	if sent, _ := s.giveBy(0, arp(otherLink, 1, host6, bridge4)); len(sent) != 0 {
		t.Error("the removed segment answers")
	}
	if sent, by := s.giveBy(1, arp(otherLink, 1, inSecond, bridge4)); len(sent) > 1 || len(by) > 0 && by[0] != 1 {
		t.Errorf("%d answers, by ports %v", len(sent), by)
	}
	two := s.cfg.Segment
	two.Place = manage.Place{Port: 1}
	if err := s.loop.Change(t.Context(), manage.Change{Segment: second, More: []manage.Segment{two}, Nodes: s.cfg.Nodes}); err == nil {
		t.Error("two segments of one place are taken")
	}
}
