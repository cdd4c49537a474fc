// SPDX-License-Identifier: Apache-2.0

package nullverbs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"causeway/dpdk"
	"causeway/perf/nullverbs"
	"causeway/perf/nullverbs/nullverbstest"
)

const dataRoom = 128 + 40 + 4096 // headroom, GRH area, payload

func TestMain(m *testing.M) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "nullverbs", Workers: []int{runtime.NumCPU() - 1}, MemoryMiB: 128, ForceNoHuge: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := eal.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// testPort makes a port. At the end of the test, it must have dropped nothing and returned all mbufs.
func testPort(t *testing.T, s nullverbs.Sizes) *nullverbstest.Port {
	t.Helper()
	pool, err := dpdk.NewMempool("nullverbs", 1023, dataRoom, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := nullverbstest.New(pool, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := p.Drops(); n != 0 {
			t.Errorf("%d messages were dropped", n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d mbufs are still in use", n)
		}
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// orders are ways in which n sends come from k queue pairs.
var orders = map[string]func(n, k int) []int{
	"in turn":   func(n, k int) []int { return order(n, func(i int) int { return i % k }) },
	"in blocks": func(n, k int) []int { return order(n, func(i int) int { return i * k / n }) },
	"shuffled": func(n, k int) []int {
		all := order(n, func(i int) int { return i % k })
		r := rand.New(rand.NewPCG(uint64(n), uint64(k)))
		r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	},
	"mostly one": func(n, k int) []int { return order(n, func(i int) int { return max(0, i-n+k) }) },
}

func order(n int, of func(i int) int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = of(i)
	}
	return all
}

// A burst costs one doorbell for each of its queue pairs, in any order of sends; the sends of a queue pair stay in
// order, and the last one is signalled.
func TestOneDoorbellEach(t *testing.T) {
	const qps = 64
	p := testPort(t, nullverbs.Sizes{QPs: qps, Receives: 64})
	for name, of := range orders {
		for _, n := range []int{1, 8, 64} {
			for _, k := range []int{1, 2, 3, 7, 64} {
				if k > n {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d of %d", name, n, k), func(t *testing.T) {
					for range 10 { // rings wrap
						checkBurst(t, p, of(n, k), k)
					}
				})
			}
		}
	}
}

func checkBurst(t *testing.T, p *nullverbstest.Port, order []int, k int) {
	t.Helper()
	const size = 10
	before := p.SendDoorbells()
	if n := p.Post(order, size); n != len(order) {
		t.Fatalf("%d of %d were taken", n, len(order))
	}
	if bells := p.SendDoorbells() - before; bells != uint64(k) {
		t.Errorf("%d doorbells for %d queue pairs in the order %v", bells, k, order)
	}
	sent := p.CarryOut()
	if len(sent) != len(order) {
		t.Fatalf("the device saw %d sends of %d", len(sent), len(order))
	}
	last := map[uint32]nullverbstest.Sent{}
	for _, s := range sent {
		if was, ok := last[s.QPN]; ok && was.Imm >= s.Imm {
			t.Errorf("queue pair %#x: send %d comes after %d", s.QPN, s.Imm, was.Imm)
		}
		if s.QPN != p.QPN(order[s.Imm]) || s.DestQPN != 0x48 || s.Len != size || !s.Inline {
			t.Errorf("send %d of %v: %+v", s.Imm, order, s)
		}
		last[s.QPN] = s
	}
	for _, s := range last {
		if !s.Signaled {
			t.Errorf("queue pair %#x: the last send is not signalled", s.QPN)
		}
	}
}

// Each of two bursts has its own doorbells.
func TestBurstsAreNotJoined(t *testing.T) {
	p := testPort(t, nullverbs.Sizes{QPs: 2, Receives: 64})
	before := p.SendDoorbells()
	p.Post([]int{0, 1, 0}, 10)
	p.Post([]int{1}, 10)
	if bells := p.SendDoorbells() - before; bells != 3 {
		t.Errorf("%d doorbells, want 2 and 1", bells)
	}
	if sent := p.CarryOut(); len(sent) != 4 {
		t.Errorf("the device saw %d sends, want 4", len(sent))
	}
}

// Payloads of up to 64 bytes are inline, and may wrap around the ring; longer ones are pointed to.
func TestPayloads(t *testing.T) {
	for _, size := range []int{1, 59, 60, 61, 64, 65, 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := testPort(t, nullverbs.Sizes{Receives: 64, Depth: 16})
			want := nullverbstest.Sent{QPN: p.QPN(0), DestQPN: 0x48, Len: size, Inline: size <= 64}
			if want.Inline {
				want.Sum = size * nullverbstest.PayloadByte
			}
			for range 100 {
				p.Post([]int{0, 0, 0}, size)
				for i, s := range p.CarryOut() {
					want.Imm, want.Signaled = uint32(i), s.Signaled
					if s != want {
						t.Fatalf("%+v, want %+v", s, want)
					}
				}
			}
		})
	}
}

// Buffers are reused, and successive messages go to the queue pairs in turn.
func TestReceive(t *testing.T) {
	const qps, receives, size = 3, 128, 100
	p := testPort(t, nullverbs.Sizes{QPs: qps, Receives: receives})
	for i := 0; i < 50*receives; {
		if n := p.Deliver(40, size, qps); n != 40 {
			t.Fatalf("the device had buffers for %d messages", n)
		}
		got := p.Poll(nullverbstest.MaxBurst)
		if len(got) != 40 {
			t.Fatalf("the worker got %d messages of 40", len(got))
		}
		for _, r := range got {
			if r.QPN != p.QPN(i%qps) || r.Len != 40+size {
				t.Fatalf("message %d: %+v", i, r)
			}
			i++
		}
	}
	if n := p.Deliver(2*receives, size, qps); n < receives-32 || n > receives {
		t.Errorf("the device took %d buffers of %d", n, receives)
	}
	for len(p.Poll(nullverbstest.MaxBurst)) > 0 {
	}
}
