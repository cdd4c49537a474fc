// SPDX-License-Identifier: Apache-2.0

package gen_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/perf/gen"
	"causeway/perf/trial"
)

var worker uint

func TestMain(m *testing.M) { os.Exit(withEAL(m)) }

func withEAL(m *testing.M) int {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "gentest", Workers: []int{runtime.NumCPU() - 1}, MemoryMiB: 128, ForceNoHuge: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	worker = eal.WorkerLcores()[0]
	code := m.Run()
	if err := eal.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

var (
	mac  = frame.MAC{2, 0, 0, 0, 0, 2}
	from = netip.MustParseAddr("10.9.0.1")
	to   = netip.MustParseAddr("10.10.0.1")
)

// flow is one whose frames arrive as they were sent.
func flow(payload int, src, dst netip.Addr, tag *frame.VLANFields) gen.Flow {
	p := roce.Packet{
		Version: 2, Dst: mac, Src: frame.MAC{2, 0, 0, 0, 0, 1}, Tag: tag, SrcIP: src, DstIP: dst, HopLimit: 64, SrcPort: 0xc000,
		PKey: ib.PKeyDefault, DestQP: 0x123, QKey: ib.QKeyRDMAUDP, SrcQP: 0x456, Payload: make([]byte, payload),
	}
	b := p.AppendTo(nil)
	f := gen.Flow{
		From: gen.RoCE, Head: b[:len(b)-payload-(-payload&3)-ib.ICRCLen], Payload: payload, Net: frame.EthernetLen,
		Want: gen.Want{Side: gen.RoCE, Addr: dst.As16(), QPN: 0x123, QKey: uint32(ib.QKeyRDMAUDP), Src: 0x456, MAC: mac},
	}
	if tag != nil {
		f.Net += frame.VLANLen
	}
	f.Network, f.BTH = gen.IPv4, f.Net+frame.IPv4Len+frame.UDPLen
	if src.Is6() {
		f.Network, f.BTH = gen.IPv6, f.Net+frame.IPv6Len+frame.UDPLen
	}
	return f
}

// Frames of all lengths have the ICRC that another implementation computes over every byte, and count up.
func TestFrames(t *testing.T) {
	var list []gen.Flow
	for n := gen.MinPayload; n <= gen.MaxPayload; n += 1 + n/37 {
		list = append(list, flow(n, from, to, nil), flow(n, netip.MustParseAddr("fd09::1"), netip.MustParseAddr("ff15::1"), &frame.VLANFields{VID: 5}))
	}
	flows, err := gen.NewFlows(list)
	if err != nil {
		t.Fatal(err)
	}
	defer flows.Free()
	for i, f := range list {
		for psn := range uint32(3) {
			p, err := roce.Parse(flows.Frame(i, 12345))
			if err != nil {
				t.Fatalf("payload of %d bytes: %v", f.Payload, err)
			}
			if len(p.Payload) != f.Payload || p.PSN != psn || binary.NativeEndian.Uint32(p.Payload[4:]) != uint32(i) ||
				binary.NativeEndian.Uint64(p.Payload[8:]) != uint64(psn) || binary.NativeEndian.Uint64(p.Payload[16:]) != 12345 {
				t.Fatalf("payload of %d bytes, PSN %d: %d bytes, stamp %x", f.Payload, p.PSN, len(p.Payload), p.Payload[:gen.MinPayload])
			}
		}
	}
}

func TestBadFlows(t *testing.T) {
	for name, change := range map[string]func(*gen.Flow){
		"short":   func(f *gen.Flow) { f.Payload = gen.MinPayload - 1 },
		"long":    func(f *gen.Flow) { f.Payload = gen.MaxPayload + 1 },
		"headers": func(f *gen.Flow) { f.Head = make([]byte, 97) },
		"BTH":     func(f *gen.Flow) { f.BTH = len(f.Head) },
		"area":    func(f *gen.Flow) { f.From = gen.IB },
	} {
		f := flow(64, from, to, nil)
		change(&f)
		if _, err := gen.NewFlows([]gen.Flow{f}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := gen.NewFlows(nil); err == nil {
		t.Error("no flows: taken")
	}
}

// stand is a generator, and a bridge between its rings that the test plays.
type stand struct {
	t       *testing.T
	gen     *gen.Generator
	in, out *dpdk.Ring
	copies  *dpdk.Mempool
}

func newStand(t *testing.T, flows ...gen.Flow) *stand {
	t.Helper()
	s := &stand{t: t}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := dpdk.NewMempool("gen", 3000, gen.DataRoom, gen.PrivateBytes)
	must(err)
	s.copies, err = dpdk.NewMempool("copies", 2000, gen.DataRoom, gen.PrivateBytes)
	must(err)
	s.in, err = dpdk.NewRing("in", 1024, false)
	must(err)
	s.out, err = dpdk.NewRing("out", 1024, false)
	must(err)
	list, err := gen.NewFlows(flows)
	must(err)
	s.gen, err = gen.New(gen.Config{Pool: pool, In: s.in, Out: s.out, Resident: 1500})
	must(err)
	s.gen.SetFlows(list)
	t.Cleanup(func() {
		s.in.Free()
		s.gen.Free()
		s.out.Free()
		list.Free()
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
		if err := s.copies.Free(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run sends n frames, brings each to the bridge, and returns what was counted.
func (s *stand) run(n uint64, bridge func(i int, m dpdk.Mbuf)) trial.Outcome {
	s.t.Helper()
	l := gen.Load{Load: trial.At([]trial.Direction{trial.RoCEToIB}, 1e6, 0), Drain: 300 * time.Millisecond, CheckEvery: 1}
	l.Packets = n
	if err := s.gen.Start(worker, l); err != nil {
		s.t.Fatal(err)
	}
	var burst [32]dpdk.Mbuf
	for i := 0; s.gen.Running(); {
		k := s.in.Dequeue(burst[:])
		for _, m := range burst[:k] {
			bridge(i, m)
			i++
		}
		if k == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return s.gen.Wait()
}

func (s *stand) forward(m dpdk.Mbuf) {
	for range 5000 {
		if s.out.Enqueue([]dpdk.Mbuf{m}) == 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Error("the way out stays full")
	m.Free()
}

// forwardCopy forwards changed bytes instead.
func (s *stand) forwardCopy(b []byte) {
	m, err := s.copies.Alloc(b)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.forward(m)
}

// What a bridge does wrong is counted, each under its name.
func TestFaults(t *testing.T) {
	const payload, n = 100, 1000
	f := flow(payload, from, to, nil)
	at := len(f.Head)
	for _, x := range []struct {
		name   string
		bridge func(s *stand, m dpdk.Mbuf) // every tenth frame; the others are forwarded
		want   trial.Counts
		stray  uint64
	}{
		{"nothing", func(s *stand, m dpdk.Mbuf) { s.forward(m) }, trial.Counts{Received: n}, 0},
		{"loses", func(_ *stand, m dpdk.Mbuf) { m.Free() }, trial.Counts{Received: n - n/10}, 0},
		{"doubles", func(s *stand, m dpdk.Mbuf) { s.forwardCopy(m.Bytes()); s.forward(m) }, trial.Counts{Received: n, Duplicates: n / 10}, 0},
		{"changes a payload", change(at+60, 1), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the last byte", change(at+payload-1, 0x80), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the ICRC", change(at+payload, 1), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the time", change(at+16, 1), trial.Counts{Received: n - n/10}, n / 10},
		{"changes the number", change(at+8, 1), trial.Counts{Received: n - n/10}, n / 10},
		{"another QP", change(f.BTH+7, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another address", change(f.Net+19, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another Q_Key", change(f.BTH+12, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another MAC", change(5, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"cuts", func(s *stand, m dpdk.Mbuf) { s.forwardCopy(m.Bytes()[:at+60]); m.Free() }, trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"no UD", func(s *stand, m dpdk.Mbuf) { s.forwardCopy(m.Bytes()[:at+10]); m.Free() }, trial.Counts{Received: n - n/10}, n / 10},
		{"another protocol", func(s *stand, m dpdk.Mbuf) { s.forwardCopy(make([]byte, 60)); m.Free() }, trial.Counts{Received: n - n/10}, 0},
		{"another port", change(f.Net+frame.IPv4Len+3, 1), trial.Counts{Received: n - n/10}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStand(t, f)
			o := s.run(n, func(i int, m dpdk.Mbuf) {
				if i%10 == 5 {
					x.bridge(s, m)
				} else {
					s.forward(m)
				}
			})
			got := o.Counts[0]
			if got.Offered != n || got.Received != x.want.Received || got.Duplicates != x.want.Duplicates || got.Corrupted != x.want.Corrupted ||
				got.Misdelivered != x.want.Misdelivered || got.Reordered != 0 || o.Foreign != x.stray {
				t.Errorf("counted %+v, foreign %d; want %+v, %d", got, o.Foreign, x.want, x.stray)
			}
		})
	}
}

// change forwards a copy with some bits changed.
func change(at int, bits byte) func(*stand, dpdk.Mbuf) {
	return func(s *stand, m dpdk.Mbuf) {
		b := m.Bytes()
		m.Free()
		b[at] ^= bits
		s.forwardCopy(b)
	}
}

// A message that others have overtaken is received, and counted as reordered; one that was held back beyond all memory is
// told apart.
func TestReordering(t *testing.T) {
	const n = 900
	s := newStand(t, flow(64, from, to, nil))
	var held []dpdk.Mbuf
	o := s.run(n, func(i int, m dpdk.Mbuf) {
		switch {
		case i == 100 || i == 200: // 200 comes 5 later
			held = append(held, m)
			return
		case i == 205:
			s.forward(held[1])
		case i == 300: // and 100 after 200 others
			s.forward(held[0])
		}
		s.forward(m)
	})
	c := o.Counts[0]
	if c.Received != n-1 || c.Reordered != 1 || c.Stale != 1 || c.Duplicates != 0 {
		t.Errorf("%+v", c)
	}
}

// What a later trial meets of an earlier one does not count.
func TestStray(t *testing.T) {
	s := newStand(t, flow(64, from, to, nil))
	var held dpdk.Mbuf
	s.run(10, func(i int, m dpdk.Mbuf) {
		if i == 3 {
			held = m
			return
		}
		s.forward(m)
	})
	o := s.run(10, func(i int, m dpdk.Mbuf) {
		if i == 0 {
			s.forward(held)
		}
		s.forward(m)
	})
	if o.Stray != 1 || o.Counts[0].Received != 10 {
		t.Errorf("stray %d, %+v", o.Stray, o.Counts[0])
	}
}

// A rate is kept, and latency is what the bridge adds. How well depends on the machine; the mean rate does not.
func TestPace(t *testing.T) {
	s := newStand(t, flow(64, from, to, nil))
	const rate, packets = 20000.0, 4000
	l := gen.Load{Load: trial.At([]trial.Direction{trial.RoCEToIB}, rate, 0), Drain: time.Second}
	l.Packets = packets
	if err := s.gen.Start(worker, l); err != nil {
		t.Fatal(err)
	}
	for s.gen.Running() {
		time.Sleep(5 * time.Millisecond)
		var burst [1024]dpdk.Mbuf
		for _, m := range burst[:s.in.Dequeue(burst[:])] {
			s.forward(m)
		}
	}
	o := s.gen.Wait()
	c := o.Counts[0]
	if elapsed := o.Elapsed - c.Skipped; elapsed < 190*time.Millisecond || elapsed > 250*time.Millisecond {
		t.Errorf("%d messages at %.0f a second took %v, %v skipped", packets, rate, o.Elapsed, c.Skipped)
	}
	if mean := o.Latency[0].Mean(); c.Received == 0 || mean < 1e6 {
		t.Errorf("a bridge that looks every 5 ms has a latency of %.0f ns", mean)
	}
}
