// SPDX-License-Identifier: Apache-2.0

package gen_test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
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

// flow makes a flow whose frames arrive unchanged.
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

// Frames of all lengths have the ICRC that another implementation computes over every byte, and consecutive PSNs.
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
			want := stamp.Stamp{Stream: uint32(i), Number: uint64(psn), Time: 12345}
			if s, v := stamp.Read(p.Payload); v != stamp.Whole || s != want || len(p.Payload) != f.Payload || p.PSN != psn {
				t.Fatalf("payload of %d bytes, PSN %d: %d bytes, verdict %d, %+v", f.Payload, p.PSN, len(p.Payload), v, s)
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

// rig is a generator, and the rings to a bridge that the test simulates.
type rig struct {
	t       *testing.T
	gen     *gen.Generator
	in, out *dpdk.Ring
	copies  *dpdk.Mempool
}

func newRig(t *testing.T, flows ...gen.Flow) *rig {
	t.Helper()
	r := &rig{t: t}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := dpdk.NewMempool("gen", 3000, gen.DataRoom, gen.PrivateBytes)
	must(err)
	r.copies, err = dpdk.NewMempool("copies", 2000, gen.DataRoom, gen.PrivateBytes)
	must(err)
	r.in, err = dpdk.NewRing("in", 1024, false)
	must(err)
	r.out, err = dpdk.NewRing("out", 1024, false)
	must(err)
	list, err := gen.NewFlows(flows)
	must(err)
	r.gen, err = gen.New(gen.Config{Pool: pool, In: r.in, Out: r.out, Resident: 1500})
	must(err)
	r.gen.SetFlows(list)
	t.Cleanup(func() {
		r.in.Free()
		r.gen.Free()
		r.out.Free()
		list.Free()
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
		if err := r.copies.Free(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// run sends n frames, passes each to bridge, and returns the outcome.
func (r *rig) run(n uint64, bridge func(i int, m dpdk.Mbuf)) trial.Outcome {
	r.t.Helper()
	l := gen.Load{Load: trial.At([]trial.Direction{trial.RoCEToIB}, 1e6, 0), Drain: 300 * time.Millisecond, CheckEvery: 1}
	l.Packets = n
	if err := r.gen.Start(worker, l); err != nil {
		r.t.Fatal(err)
	}
	var burst [32]dpdk.Mbuf
	for i := 0; r.gen.Running(); {
		k := r.in.Dequeue(burst[:])
		for _, m := range burst[:k] {
			bridge(i, m)
			i++
		}
		if k == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return r.gen.Wait()
}

func (r *rig) forward(m dpdk.Mbuf) {
	for range 5000 {
		if r.out.Enqueue([]dpdk.Mbuf{m}) == 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Error("the output ring stays full")
	m.Free()
}

// forwardCopy forwards changed bytes instead.
func (r *rig) forwardCopy(b []byte) {
	m, err := r.copies.Alloc(b)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.forward(m)
}

// Each kind of fault of a bridge has its own counter.
func TestFaults(t *testing.T) {
	const payload, n = 100, 1000
	f := flow(payload, from, to, nil)
	at := len(f.Head)
	for _, x := range []struct {
		name   string
		bridge func(r *rig, m dpdk.Mbuf) // every tenth frame; the others are forwarded
		want   trial.Counts
		stray  uint64
	}{
		{"nothing", func(r *rig, m dpdk.Mbuf) { r.forward(m) }, trial.Counts{Received: n}, 0},
		{"loses", func(_ *rig, m dpdk.Mbuf) { m.Free() }, trial.Counts{Received: n - n/10}, 0},
		{"duplicates", func(r *rig, m dpdk.Mbuf) { r.forwardCopy(m.Bytes()); r.forward(m) }, trial.Counts{Received: n, Duplicates: n / 10}, 0},
		{"changes a payload", change(at+60, 1), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the last byte", change(at+payload-1, 0x80), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the ICRC", change(at+payload, 1), trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"changes the time", change(at+16, 1), trial.Counts{Received: n - n/10}, n / 10},
		{"changes the number", change(at+8, 1), trial.Counts{Received: n - n/10}, n / 10},
		{"another QP", change(f.BTH+7, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another address", change(f.Net+19, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another Q_Key", change(f.BTH+12, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"another MAC", change(5, 1), trial.Counts{Received: n - n/10, Misdelivered: n / 10}, 0},
		{"cuts", func(r *rig, m dpdk.Mbuf) { r.forwardCopy(m.Bytes()[:at+60]); m.Free() }, trial.Counts{Received: n - n/10, Corrupted: n / 10}, 0},
		{"no UD", func(r *rig, m dpdk.Mbuf) { r.forwardCopy(m.Bytes()[:at+10]); m.Free() }, trial.Counts{Received: n - n/10}, n / 10},
		{"another protocol", func(r *rig, m dpdk.Mbuf) { r.forwardCopy(make([]byte, 60)); m.Free() }, trial.Counts{Received: n - n/10}, 0},
		{"another port", change(f.Net+frame.IPv4Len+3, 1), trial.Counts{Received: n - n/10}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, f)
			o := r.run(n, func(i int, m dpdk.Mbuf) {
				if i%10 == 5 {
					x.bridge(r, m)
				} else {
					r.forward(m)
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
func change(at int, bits byte) func(*rig, dpdk.Mbuf) {
	return func(r *rig, m dpdk.Mbuf) {
		b := m.Bytes()
		m.Free()
		b[at] ^= bits
		r.forwardCopy(b)
	}
}

// A message that others have overtaken is received and counted as reordered; one that is so old that a duplicate cannot
// be recognised is counted as stale.
func TestReordering(t *testing.T) {
	const n = 900
	r := newRig(t, flow(64, from, to, nil))
	var held []dpdk.Mbuf
	o := r.run(n, func(i int, m dpdk.Mbuf) {
		switch {
		case i == 100 || i == 200: // 200 comes 5 later
			held = append(held, m)
			return
		case i == 205:
			r.forward(held[1])
		case i == 300: // and 100 after 200 others
			r.forward(held[0])
		}
		r.forward(m)
	})
	c := o.Counts[0]
	if c.Received != n-1 || c.Reordered != 1 || c.Stale != 1 || c.Duplicates != 0 {
		t.Errorf("%+v", c)
	}
}

// Messages that arrive in a later trial do not count.
func TestStray(t *testing.T) {
	r := newRig(t, flow(64, from, to, nil))
	var held dpdk.Mbuf
	r.run(10, func(i int, m dpdk.Mbuf) {
		if i == 3 {
			held = m
			return
		}
		r.forward(m)
	})
	o := r.run(10, func(i int, m dpdk.Mbuf) {
		if i == 0 {
			r.forward(held)
		}
		r.forward(m)
	})
	if o.Stray != 1 || o.Counts[0].Received != 10 {
		t.Errorf("stray %d, %+v", o.Stray, o.Counts[0])
	}
}

// The mean rate is kept whatever the machine, and latency is what the bridge adds.
func TestPace(t *testing.T) {
	for range 9 {
		if paced(t) < 250*time.Millisecond {
			return
		}
	}
	if took := paced(t); took > 250*time.Millisecond { // a busy machine takes time that the generator does not see
		t.Errorf("took %v in the last of ten tries", took)
	}
}

// paced sends for 0.2 s, and returns how long that took, without what was skipped.
func paced(t *testing.T) time.Duration {
	t.Helper()
	r := newRig(t, flow(64, from, to, nil))
	const rate, packets = 20000.0, 4000
	l := gen.Load{Load: trial.At([]trial.Direction{trial.RoCEToIB}, rate, 0), Drain: time.Second}
	l.Packets = packets
	if err := r.gen.Start(worker, l); err != nil {
		t.Fatal(err)
	}
	for r.gen.Running() {
		time.Sleep(5 * time.Millisecond)
		var burst [1024]dpdk.Mbuf
		for _, m := range burst[:r.in.Dequeue(burst[:])] {
			r.forward(m)
		}
	}
	o := r.gen.Wait()
	c := o.Counts[0]
	if o.Elapsed-c.Skipped < 190*time.Millisecond {
		t.Errorf("%d messages at %.0f a second took %v, %v skipped", packets, rate, o.Elapsed, c.Skipped)
	}
	if mean := o.Latency[0].Mean(); c.Received == 0 || mean < 1e6 {
		t.Errorf("a bridge that polls every 5 ms has a latency of %.0f ns", mean)
	}
	return o.Elapsed - c.Skipped
}
