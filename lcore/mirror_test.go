// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// An observer mirrors the packets of a rig.
type observer struct {
	t      testing.TB
	stop   context.CancelFunc
	ended  sync.WaitGroup
	saw    []lcore.MirroredPacket
	missed uint64
	err    error
}

// mirror begins to mirror; from its return on, everything is mirrored.
func (s *rig) mirror(o lcore.MirrorOptions) *observer {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &observer{t: s.t, stop: stop}
	began := make(chan struct{})
	o.Began = func() { close(began) }
	failed := make(chan struct{})
	l.ended.Go(func() {
		l.missed, l.err = s.datapath.Mirror(ctx, o, func(x lcore.MirroredPacket) bool { l.saw = append(l.saw, x); return true })
		if l.err != nil {
			close(failed)
		}
	})
	select {
	case <-began:
	case <-failed:
	}
	s.t.Cleanup(func() { l.end() })
	return l
}

func (s *rig) filtered(text ...string) *observer {
	s.t.Helper()
	f, err := lcore.ParseFilter(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.mirror(lcore.MirrorOptions{Filter: f})
}

// end returns the mirrored packets.
func (l *observer) end() []lcore.MirroredPacket {
	l.t.Helper()
	l.stop()
	l.ended.Wait()
	if l.err != nil {
		l.t.Fatal(l.err)
	}
	return l.saw
}

// during makes a rig that outlives a subtest report to the subtest while that runs.
func (s *rig) during(t *testing.T) {
	outer := s.t
	s.t = t
	t.Cleanup(func() { s.t = outer })
}

// points lists the points at which packets were mirrored, in order.
func points(saw []lcore.MirroredPacket) string {
	out := ""
	for _, s := range saw {
		out += fmt.Sprintf("%v@%d ", s.Point, s.Worker)
	}
	return out
}

// A dropped packet is mirrored once with its reason and the frame as received, for every reason; and a forwarded packet
// at both ports.
func TestMirrorOfRoCECases(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range roceCases() {
		t.Run(c.name, func(t *testing.T) {
			s := rigFor(t, common, c.fixture)
			s.during(t)
			all, dropped := s.mirror(lcore.MirrorOptions{}), s.filtered("drop", "any", "direction", "roce_to_ib")
			s.fromRoCE(c.frame)
			s.toIB(0)
			saw, died := all.end(), dropped.end()
			wantDrop := named(t, c.drop)
			if len(saw) == 0 || saw[0].Point != lcore.Received || string(saw[0].Data) != string(c.frame) || saw[0].Len != len(c.frame) {
				t.Fatalf("saw %+v", saw)
			}
			last := saw[len(saw)-1]
			if last.Packet != saw[0].Packet || last.Packet == 0 || len(saw) != 2 {
				t.Errorf("there are not two mirrored packets with the same id: %+v", saw)
			}
			switch {
			case c.drop == "mad_served":
				want(t, "point", last.Point, lcore.ToManagement)
				want(t, "died", len(died), 0)
			case c.drop != "":
				if len(died) != 1 || wantDrop[died[0].Drop] != 1 || string(died[0].Data) != string(c.frame) || last.Point != lcore.Dropped {
					t.Errorf("died %+v", died)
				}
			default:
				want(t, "point", last.Point, lcore.Sent)
				want(t, "died", len(died), 0)
			}
			s.takePunted()
		})
	}
}

func TestMirrorOfIBCases(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range ibCases {
		t.Run(c.name, func(t *testing.T) {
			s := rigFor(t, common, c.fixture)
			s.during(t)
			all := s.mirror(lcore.MirrorOptions{})
			s.fromIB(c.msg)
			out := s.toRoCE(0)
			saw := all.end()
			if len(saw) != 2 || saw[0].Packet != saw[1].Packet {
				t.Fatalf("saw %s", points(saw))
			}
			in, last := saw[0], saw[1]
			if in.IB == nil || string(in.Data) != string(c.msg.Payload) || in.IB.Peer != c.msg.SrcQP || in.IB.QPN != c.msg.QPN ||
				in.IB.SLID != c.msg.SLID || in.Direction != lcore.IBToRoCE || in.Len != len(c.msg.Payload) {
				t.Errorf("saw %+v %+v", in, in.IB)
			}
			if c.drop == "" {
				if last.Point != lcore.Sent || last.Side != lcore.RoCESide || string(last.Data) != string(out[0]) {
					t.Errorf("sent %+v", last)
				}
				return
			}
			if named(t, c.drop)[last.Drop] != 1 || last.Point != lcore.Dropped || string(last.Data) != string(c.msg.Payload) || last.IB.Peer != c.msg.SrcQP {
				t.Errorf("dropped %+v", last)
			}
		})
	}
}

// A packet dropped on the way out is mirrored as dropped, once for each, and only packets that the port took are
// mirrored as sent.
func TestMirrorOfWays(t *testing.T) {
	for _, c := range wayCases {
		t.Run(c.name, func(t *testing.T) {
			s := newRig(t, smallFixture().with(c.fixture))
			died, sent := s.filtered("drop", c.drop), s.filtered("point", "sent")
			c.provoke(s)
			s.work()
			saw := died.end()
			want(t, "died", uint64(len(saw))+died.missed, c.count)
			counted := s.datapath.Counters().Direction
			want(t, "sent", uint64(len(sent.end()))+sent.missed, counted[0].Sent+counted[1].Sent)
			for _, x := range saw {
				if x.Direction != c.direction {
					t.Errorf("direction %v", x.Direction)
				}
				if _, err := roce.Parse(x.Data); (c.drop == "ib_full" || c.drop == "eth_full" || c.drop == "proxy_qp_full") && err != nil {
					t.Errorf("the dropped packet is no RoCE: %v", err)
				}
			}
		})
	}
}

// The points of packets that go through another worker and through management, in order.
func TestMirrorOfDetours(t *testing.T) {
	s := newRig(t, smallFixture().with(twoWorkers))
	l := s.mirror(lcore.MirrorOptions{})
	s.fromRoCE(v4())
	want(t, "handed over", points(l.end()), "received@0 handoff@0 sent@1 ")
	l = s.mirror(lcore.MirrorOptions{})
	s.fromRoCE(newcomer())
	s.takePunted()[0].Pending.Requeue()
	s.work()
	saw := l.end()
	want(t, "pending", points(saw), "received@0 waiting@0 dropped@0 ")
	want(t, "one packet", saw[0].Packet == saw[2].Packet, true)
	l = s.mirror(lcore.MirrorOptions{})
	s.fromRoCE(newcomer())
	s.takePunted()[0].Pending.Drop(lcore.DropProxyQPFull)
	want(t, "rejected", points(l.end()), "received@0 waiting@0 dropped@0 ")
	l = s.mirror(lcore.MirrorOptions{})
	if err := s.workers[1].Send(s.pool.Pointer(), 0, v4()); err != nil {
		t.Fatal(err)
	}
	s.work()
	want(t, "own", points(l.end()), "own@1 ")
}

// The metadata mirrored with a sent packet.
func TestMirrorOfSend(t *testing.T) {
	s := newRig(t, smallFixture())
	l := s.filtered("side", "ib")
	s.fromRoCE(v4(to(group4), imm(uint32(hostQPN)), payload(100)))
	saw := l.end()
	if len(saw) != 1 {
		t.Fatalf("saw %s", points(saw))
	}
	g := s.fixture.group(group4)
	got := saw[0].IB
	if got.DGID != g.MGID || got.DLID != g.MLID || got.SL != g.SL || got.QKey != groupIB || got.Peer != ib.QPMulticast || got.QPN != proxyQPN ||
		got.QP != proxyQP || !got.GRH || !got.HasImm || got.Imm != uint32(proxyQPN) || got.HopLimit != 7 || !got.Known {
		t.Errorf("sent with %+v", got)
	}
	want(t, "payload", string(saw[0].Data), string(pattern(100)))
}

// A group is found by its address and by its MGID, in RoCEv1, too.
func TestMirrorGroups(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, g := range []netip.Addr{group4, group6, group1} {
		for _, name := range []string{g.String(), mgidOf(g).String()} {
			l := s.filtered("group", name)
			make := v4
			if g == group6 {
				make = v6
			} else if g == group1 {
				make = v1
			}
			s.fromRoCE(make(to(g)), make(to(groupMDNS)))
			s.fromIB(received(toGroup(mgidOf(g))), received(toGroup(mgidOf(groupIn))))
			wanted := 4
			if name != g.String() {
				wanted = 2 // only InfiniBand packets have an MGID
			}
			want(t, name, len(l.end()), wanted)
			s.toIB(0)
			s.toRoCE(0)
		}
	}
}

// When a mirror's ring is full, missed packets are counted, and traffic goes on.
func TestMirrorsMissed(t *testing.T) {
	s := newRig(t, smallFixture())
	ctx, stop := context.WithCancel(context.Background())
	began, gone := make(chan struct{}), make(chan uint64)
	hold := make(chan struct{})
	n := 0
	go func() {
		missed, _ := s.datapath.Mirror(ctx, lcore.MirrorOptions{Slots: 4, Snap: 20, Began: func() { close(began) }}, func(x lcore.MirroredPacket) bool {
			<-hold
			if n++; len(x.Data) > 20 || x.Len < len(x.Data) {
				t.Errorf("%d bytes of %d", len(x.Data), x.Len)
			}
			return true
		})
		gone <- missed
	}()
	<-began
	s.fromRoCE(v4())
	time.Sleep(20 * time.Millisecond) // now the reader waits
	s.fromRoCE(repeat(v4(), 100)...)
	close(hold)
	stop()
	missed := <-gone
	want(t, "all", uint64(n)+missed, 202)
	if n > 2+4+4 || n < 4 {
		t.Errorf("saw %d, missed %d", n, missed)
	}
	want(t, "crossed", len(s.toIB(0)), 101)
}

// There are at most four mirrors at once; one that ends makes room; closing the datapath ends them all.
func TestManyMirrors(t *testing.T) {
	s := newRig(t, smallFixture())
	var all []*observer
	for range lcore.MaxMirrors {
		all = append(all, s.mirror(lcore.MirrorOptions{}))
	}
	one := func() error {
		_, err := s.datapath.Mirror(t.Context(), lcore.MirrorOptions{Began: func() { s.fromRoCE(v4()) }}, func(lcore.MirroredPacket) bool { return false })
		return err
	}
	if err := one(); !errors.Is(err, lcore.ErrTooManyMirrors) {
		t.Errorf("the fifth: %v", err)
	}
	all[1].end()
	if err := one(); err != nil {
		t.Error(err)
	}
	s.datapath.Close()
	for i, l := range all {
		l.ended.Wait()
		if l.err != nil || i != 1 && len(l.saw) != 2 {
			t.Errorf("mirror %d: %v, saw %s", i, l.err, points(l.saw))
		}
	}
	if err := one(); err == nil {
		t.Error("a closed datapath is mirrored")
	}
	s.reopen()
}

// Mirrors begin and end while workers run; traffic is not affected, and nothing is counted twice.
func TestMirrorWhileRunning(t *testing.T) {
	w := smallFixture()
	w.config.Idle = lcore.IdleSleep
	s := newRig(t, w.with(twoWorkers))
	s.start()
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range lcore.MaxMirrors {
		readers.Go(func() {
			for ctx.Err() == nil {
				short, done := context.WithTimeout(ctx, time.Duration(i+1)*time.Millisecond)
				if _, err := s.datapath.Mirror(short, lcore.MirrorOptions{Snap: 64, Slots: 256}, func(lcore.MirroredPacket) bool { return true }); err != nil {
					t.Error(err)
				}
				done()
			}
		})
	}
	whole := 0
	const rounds, batch = 200, 32
	for range rounds {
		s.arrive(0, repeat(v4(), batch)...)
		s.ibPort.Deliver(0, slices.Repeat([]fabricport.Received{fabricport.Received(received())}, batch))
		for got := 0; got < batch; {
			n := len(s.toRoCE(0))
			got, whole = got+n, whole+n
			s.workers[1].Step() // the second runs here
			s.toIB(1)
		}
	}
	stop()
	readers.Wait()
	s.workers[0].Stop()
	s.work()
	c := s.datapath.Counters()
	want(t, "to RoCE", whole, rounds*batch)
	want(t, "to IB", c.Direction[lcore.RoCEToIB].Sent, rounds*batch)
	s.checkConserved(c)
}
