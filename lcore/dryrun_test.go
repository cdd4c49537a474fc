// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"causeway/ibside/fabricport"
	"causeway/lcore"
	"causeway/lcore/dryrun"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// A dryRig runs packets dry first, and then through the workers of a rig.
type dryRig struct {
	*rig
	runner *dryrun.Runner
}

func newDryRig(t testing.TB, w *fixture) *dryRig {
	t.Helper()
	s := newRig(t, w)
	r, err := dryrun.New(dryrun.Config{Datapath: w.config, Tables: s.tables, Workers: max(1, w.workers), MaxGroups: 64, MTU: 4200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &dryRig{s, r}
}

// copyOf is what must be alike in the copies of a dry and of a real packet: all but the time, the numbers of packets,
// and the PSN that a worker counts, with the ICRC over it.
func copyOf(m lcore.MirroredPacket) string {
	data := fmt.Sprintf("%x", m.Data)
	if p, err := roce.Parse(m.Data); err == nil && m.Point == lcore.Sent && m.Side == lcore.RoCESide {
		p.PSN = 0
		data = fmt.Sprintf("%x", p.AppendTo(nil))
	}
	descriptor := "none"
	if m.IB != nil {
		descriptor = fmt.Sprintf("%+v", *m.IB)
	}
	return fmt.Sprintf("%v at worker %d, %v, side %v, drop %v, %d bytes %s, IB %s", m.Point, m.Worker, m.Direction, m.Side, m.Drop, m.Len, data, descriptor)
}

// byPacket returns the copies of each packet, in the order in which the first worker received them. A packet passes
// each point once, so that the order of its copies need not be compared: their times are exact to a thread's delays
// only.
func byPacket(saw []lcore.MirroredPacket) (all [][]string) {
	of := map[uint64][]string{}
	for _, m := range saw {
		of[m.Packet] = append(of[m.Packet], copyOf(m))
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		all = append(all, slices.Sorted(slices.Values(of[number])))
	}
	return all
}

// same runs packets dry, each before it runs really, and checks that it passes the same points with the same fields
// both times, and that the dry run changes no counter.
func (s *dryRig) same(t *testing.T, all ...dryrun.Packet) {
	t.Helper()
	actual := s.mirror(lcore.MirrorOptions{})
	var dry [][]string
	for _, p := range all {
		before := s.datapath.Counters()
		saw := s.dry(t, p)
		if after := s.datapath.Counters(); !reflect.DeepEqual(after, before) {
			t.Fatalf("a dry run counts: %+v, before %+v", after, before)
		}
		dry = append(dry, byPacket(saw)...)
		s.run(p)
	}
	got := byPacket(actual.end())
	if len(dry) != len(all) || len(got) != len(all) {
		t.Fatalf("%d packets were seen dry and %d really, of %d", len(dry), len(got), len(all))
	}
	for i := range all {
		if !slices.Equal(dry[i], got[i]) {
			t.Fatalf("%s %+v:\ndry    %q\nreally %q", hex.EncodeToString(all[i].Frame), all[i].Message, dry[i], got[i])
		}
	}
}

// dry runs a packet dry, as a reader of the tables.
func (s *dryRig) dry(t *testing.T, p dryrun.Packet) []lcore.MirroredPacket {
	t.Helper()
	reader, err := s.tables.Reader(3)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	saw, err := s.runner.Run(p)
	if err != nil {
		t.Fatal(err)
	}
	return saw
}

// run runs a packet through the workers. What it punts is dropped at the end of the rig.
func (s *dryRig) run(p dryrun.Packet) {
	if p.Message != nil {
		s.fromIB(message(*p.Message))
	} else {
		s.fromRoCE(p.Frame)
	}
	for w := range s.workers {
		s.toIB(w)
		s.toRoCE(w)
	}
}

func fromRoCE(f []byte) dryrun.Packet { return dryrun.Packet{Frame: f} }

func fromIB(m message) dryrun.Packet {
	received := fabricport.Received(m)
	return dryrun.Packet{Message: &received}
}

// TestDryRunCases runs every case of a drop, of a crossing and of another station's MAC address, with one worker and
// with two.
func TestDryRunCases(t *testing.T) {
	for _, workers := range []int{1, 2} {
		var plain []dryrun.Packet
		add := func(name string, change func(*fixture), p dryrun.Packet) {
			if change == nil {
				plain = append(plain, p)
				return
			}
			t.Run(fmt.Sprintf("%d workers, %s", workers, name), func(t *testing.T) {
				w := smallFixture().with(change)
				w.workers = workers
				newDryRig(t, w).same(t, p)
			})
		}
		for _, c := range roceCases() {
			add(c.name, c.fixture, fromRoCE(c.frame))
		}
		for _, c := range ibCases {
			add(c.name, c.fixture, fromIB(c.msg))
		}
		for _, c := range toRoCECases {
			add(c.name, c.fixture, fromIB(c.msg))
		}
		w := smallFixture()
		if workers == 2 {
			twoWorkers(w)
		}
		for _, f := range [][]byte{newcomer(), v4(fromMAC(otherMAC)), v6(fromMAC(otherMAC)), v4(to(group4), fromMAC(otherMAC))} {
			plain = append(plain, fromRoCE(f))
		}
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) { newDryRig(t, w).same(t, plain...) })
	}
}

// TestDryRunPartitions sends to other partitions, and to a node in the one that it was last heard in.
func TestDryRunPartitions(t *testing.T) {
	w := smallFixture()
	w.nodes[0].Partition, w.nodes[1].Partition, w.group(group4).Partition = tables.PartitionHeard, 3, 3
	w.proxyQPs = append(w.proxyQPs, w.inPartition(3))
	back := received(func(m *message) { m.QPN = secondQPN })
	newDryRig(t, w).same(t, fromRoCE(v4()), fromRoCE(v4(to(group4), imm(uint32(hostQPN)))), fromRoCE(v4(dest("10.10.0.4"))), fromIB(back), fromRoCE(v4()),
		fromIB(received()), fromRoCE(v4()))
}

// TestDryRunRandom runs packets of the differential tests.
func TestDryRunRandom(t *testing.T) {
	for i, x := range fixtures {
		t.Run(x.name, func(t *testing.T) {
			w := smallFixture().with(x.change)
			g := newGenerator(w, 0, uint64(i))
			var all []dryrun.Packet
			for range 300 {
				all = append(all, fromRoCE(g.frame()), fromIB(g.message()))
			}
			newDryRig(t, w).same(t, all...)
		})
	}
}

// TestDryRunMarksNothing checks that no entry is marked as used, and no node as heard in a partition, so that what is
// explained does not live longer.
func TestDryRunMarksNothing(t *testing.T) {
	w := smallFixture()
	w.nodes[0].Partition = tables.PartitionHeard
	w.proxyQPs = append(w.proxyQPs, w.inPartition(3))
	s := newDryRig(t, w)
	of := tables.HostQP{Host: hostIP, HostQPN: hostQPN}
	s.tables.ProxyQPs.TakeUsed(of)
	back := received(func(m *message) { m.QPN = secondQPN })
	for _, p := range []dryrun.Packet{fromRoCE(v4()), fromIB(received()), fromIB(back)} {
		s.dry(t, p)
	}
	if toIB, toRoCE := s.tables.ProxyQPs.TakeUsed(of); toIB || toRoCE || s.tables.Nodes.TakeUsed(w.nodes[0].GID) {
		t.Error("an entry is marked as used")
	}
	s.fromRoCE(v4())
	if sent := s.toIB(0); len(sent) != 1 || sent[0].QP != proxyQP {
		t.Errorf("the node was heard in another partition: %+v", sent)
	}
	if toIB, _ := s.tables.ProxyQPs.TakeUsed(of); !toIB || !s.tables.Nodes.TakeUsed(w.nodes[0].GID) {
		t.Error("what crosses really marks nothing either")
	}
}
