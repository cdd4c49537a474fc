// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/app/segment"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// says checks what a judge says; "": nothing.
func says(t *testing.T, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestConservationJudge checks that a packet that a direction does not count is noticed.
func TestConservationJudge(t *testing.T) {
	for _, c := range []struct {
		name                    string
		received, sent, dropped uint64
		want                    string
	}{
		{"all are counted", 9, 7, 2, ""},
		{"one is lost", 9, 6, 2, "roce_to_ib: 9 packets received, 6 sent"},
		{"a drop is counted twice", 9, 7, 3, "roce_to_ib: 9 packets received, 7 sent"},
		{"one is doubled", 9, 8, 2, "roce_to_ib: 9 packets received, 8 sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := status{Directions: map[string]direction{"roce_to_ib": {Received: c.received, Sent: c.sent, Drops: map[string]uint64{"icrc": c.dropped}}, "ib_to_roce": {}}}
			says(t, s.uncounted(), c.want)
		})
	}
}

// TestPortsJudge checks that a message is noticed that several InfiniBand ports count differently.
func TestPortsJudge(t *testing.T) {
	s := status{Directions: map[string]direction{"roce_to_ib": {Sent: 9}, "ib_to_roce": {Received: 7}}}
	for _, c := range []struct {
		name                  string
		sent, full, noWay, in float64
		want                  string
	}{
		{"all are counted", 6, 2, 1, 7, ""},
		{"one is sent twice", 7, 2, 1, 7, "9 packets sent to InfiniBand and 7 received, but the ports took or lost 10"},
		{"one is lost", 6, 1, 1, 7, "took or lost 8"},
		{"one that came is not counted", 6, 2, 1, 6, "brought 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			says(t, s.uncountedByPorts(map[string]float64{
				`causeway_fabric_sent_total{port="a",fabric="a"}`:                        c.sent - 1,
				`causeway_fabric_sent_total{port="b",fabric="b"}`:                        1,
				`causeway_fabric_full_total{port="b",fabric="b"}`:                        c.full,
				`causeway_ib_port_lost_total{direction="roce_to_ib",reason="no_way"}`:    c.noWay,
				`causeway_ib_port_lost_total{direction="roce_to_ib",reason="ah_failed"}`: 5,
				`causeway_fabric_received_total{port="a",fabric="a"}`:                    c.in - 2,
				`causeway_group_copies_total`:                                            2,
			}), c.want)
		})
	}
}

// TestInterfaceJudge checks that a frame is noticed that the kernel and the bridge count differently.
func TestInterfaceJudge(t *testing.T) {
	b := baseline{there: true, kernel: passed{100, 200, 0}, port: passed{10, 20, 5}}
	for _, c := range []struct {
		name string
		port passed
		want string
	}{
		{"all are counted", passed{17, 28, 5}, ""},
		{"one that came is not", passed{16, 28, 5}, "7 frames in, the bridge 6"},
		{"one that came is counted twice", passed{18, 28, 5}, "7 frames in, the bridge 8"},
		{"one that was sent is not", passed{17, 27, 5}, "8 frames out, the bridge 7"},
		{"one is sent that nobody saw", passed{17, 29, 5}, "8 frames out, the bridge 9"},
		{"one could not be sent", passed{17, 28, 6}, ""},
		{"one that could not be sent left later", passed{17, 27, 6}, "8 frames out, the bridge 7"},
	} {
		t.Run(c.name, func(t *testing.T) { says(t, b.differs(passed{107, 208, 0}, c.port), c.want) })
	}
}

// TestGrowthJudge checks that a leak is noticed before it is one of many.
func TestGrowthJudge(t *testing.T) {
	first := usage{resident: 1 << 27, descriptors: 40, threads: 20, goroutines: 50, mbufs: 900}
	for _, c := range []struct {
		name string
		more usage
		want string
	}{
		{"nothing", usage{}, ""},
		{"a runtime that has more threads", usage{threads: 8, goroutines: 2}, ""},
		{"a descriptor at each reload", usage{descriptors: moreDescriptors + 1}, "file descriptors, 40 at first"},
		{"goroutines", usage{goroutines: moreGoroutines + 1}, "goroutines, 50 at first"},
		{"goroutines of a fabric that is cut", usage{goroutines: moreGoroutines + 5, asks: 5}, ""},
		{"more than those", usage{goroutines: moreGoroutines + 6, asks: 5}, "goroutines, 50 at first"},
		{"threads", usage{threads: moreThreads + 1}, "threads, 20 at first"},
		{"packet buffers", usage{mbufs: moreMbufs + 1}, "mbufs, 900 at first"},
		{"memory", usage{resident: moreResident + 1}, "bytes resident"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := first
			now.resident += c.more.resident
			now.descriptors += c.more.descriptors
			now.threads += c.more.threads
			now.goroutines += c.more.goroutines
			now.mbufs += c.more.mbufs
			now.asks = c.more.asks
			says(t, first.grown(&now), c.want)
		})
	}
}

// TestServicesJudge checks that wrong answers to requests for services are noticed, also a rejection of one who has far
// from all that it may have; and that none is not.
func TestServicesJudge(t *testing.T) {
	s, h := newServices(1, 0), &host{i: 1, in: &partition{layout: layout{1, 1, 1}}}
	good := ib.SIDRRepFields{QPN: nodeQPN(0), QKey: ib.QKeyRDMAUDP}
	for _, c := range []struct {
		name  string
		spoil func(*ib.SIDRRepFields)
		want  string
	}{
		{"right", func(*ib.SIDRRepFields) {}, ""},
		{"another queue pair", func(f *ib.SIDRRepFields) { f.QPN++ }, "host 1 asked for the node's service"},
		{"another Q_Key", func(f *ib.SIDRRepFields) { f.QKey++ }, "host 1 asked"},
		{"no room for it", func(f *ib.SIDRRepFields) { f.Status = ib.SIDRStatusNoQP }, "host 1 asked"},
		{"nobody serves it", func(f *ib.SIDRRepFields) { f.Status = ib.SIDRStatusUnsupported }, "host 1 asked"},
		{"the node is busy", func(f *ib.SIDRRepFields) { f.Status = ib.SIDRStatusRejected }, ""},
	} {
		f := good
		c.spoil(&f)
		b := make([]byte, ib.MADLen-ib.MADHdrLen)
		ib.PutSIDRRep(b, f)
		rep, _ := ib.AsSIDRRep(b)
		s.answered(fromHost, h, judgeAnswer(h, nodeQPN(0), rep))
		t.Run(c.name, func(t *testing.T) { says(t, strings.Join(s.faults(), "\n"), c.want) })
	}
	if n := s.count()[fromHost][1]; n != 1 {
		t.Errorf("%d right answers, want 1", n)
	}
}

// TestCrossingJudge has messages come to another partition than their sender's, by every way, and checks that each is
// named; and that none is where it should be, nor one to a group that both have.
func TestCrossingJudge(t *testing.T) {
	l := layout{1, 2, 1}
	r := &rig{random: rand.New(rand.NewPCG(1, 1)), flows: map[uint32]*flow{}, crossers: map[uint32]*crosser{}}
	for i := range l.segments {
		r.partitions = append(r.partitions, &partition{i: i, layout: l, segment: new(segment.Segment), port: segment.Port})
	}
	r.addCrossers()
	first, second := r.partitions[0], r.partitions[1]
	h := [2]*host{{in: first}, {in: second}}
	own := r.flow("a → b", "test", h[0].at(7, hostIP4(0)))
	both := r.flow("c → d", "test", h[0].at(0, shared), h[1].at(0, shared))
	own.in = first
	for _, f := range []*flow{own, both} {
		f.sizes = []int{64}
		f.next(time.Now())
		r.flows[f.stream] = f
	}
	none := r.crosserOn(first, secondVLAN+1)
	at := func(in *partition, f *flow, at string) func() {
		return func() { r.deliver(in, at, netip.Addr{}, false, 0, stampedBy(f, 1)) }
	}
	atNode := func(in *partition, stream uint32, size int) func() {
		imm, _ := immOf(stream, 1, size)
		return func() {
			(&node{rig: r, i: in.first(), in: in}).passed(&fabric.Received{QPN: nodeQPN(in.first()), HasImm: true, Imm: imm, Payload: make([]byte, size)})
		}
	}
	for _, c := range []struct {
		name string
		do   func()
		want string
	}{
		{"at its host", at(first, own, h[0].at(7, hostIP4(0))), ""},
		{"at the host of the same address", at(second, own, h[1].at(7, hostIP4(0))), "crossed from partition 0x8001 to partition 0x8002: that of a → b is at host 0 of partition 0x8002 QPN 0x000007 at 10.9.0.64"},
		{"in a group", at(second, own, h[1].at(0, toRoCE[0])), "0x8002: that of a → b is at host 0 of partition 0x8002 in 239.1.2.4"},
		{"in the group of both", at(second, both, h[1].at(0, shared)), ""},
		{"at a node", atNode(second, own.stream, 4), "0x8002: that of a → b is at node 4 QPN 0x000804"},
		{"at its own", atNode(first, own.stream, 4), ""},
		{"a crosser's", atNode(second, r.crosserOn(first, 0).stream, 0), "the crosser 10.9.0.240 is at node 4"},
		{"the other's, by its VLAN", atNode(first, r.crosserOn(first, secondVLAN).stream, 0), "from partition 0x8002 to partition 0x8001: that of the crosser 10.9.0.241 is at node 0"},
		{"where it should be", atNode(second, r.crosserOn(first, secondVLAN).stream, 0), ""},
		{"of no segment's VLAN", atNode(first, none.stream, 0), "from no partition to partition 0x8001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.crossings, own.faults, both.faults = nil, nil, nil
			c.do()
			says(t, strings.Join(r.crossings, "\n"), c.want)
			if len(own.faults)+len(both.faults) > 0 {
				t.Errorf("%q, %q", own.faults, both.faults)
			}
		})
	}
}
