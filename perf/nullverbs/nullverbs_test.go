// SPDX-License-Identifier: Apache-2.0

package nullverbs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"causeway/dpdk"
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

// testDoor makes a door whose worker must have dropped nothing, and whose mbufs must be back, at the end.
func testDoor(t *testing.T, s Sizes) *Door {
	t.Helper()
	pool, err := dpdk.NewMempool("nullverbs", 1023, dataRoom, 0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(pool, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := d.Drops(); n != 0 {
			t.Errorf("%d messages were dropped", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d mbufs are still in use", n)
		}
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
	})
	return d
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

// A burst costs one doorbell for each of its queue pairs, however its sends are mixed; each queue pair's keep their order,
// and the last of a list is signalled.
func TestOneDoorbellEach(t *testing.T) {
	const qps = 64
	d := testDoor(t, Sizes{QPs: qps, Receives: 64})
	for name, of := range orders {
		for _, n := range []int{1, 8, 64} {
			for _, k := range []int{1, 2, 3, 7, 64} {
				if k > n {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d of %d", name, n, k), func(t *testing.T) {
					for range 10 { // rings go round
						checkBurst(t, d, of(n, k), k)
					}
				})
			}
		}
	}
}

func checkBurst(t *testing.T, d *Door, order []int, k int) {
	t.Helper()
	const size = 10
	before := d.SendBells()
	if n := d.Post(order, size); n != len(order) {
		t.Fatalf("%d of %d were taken", n, len(order))
	}
	if bells := d.SendBells() - before; bells != uint64(k) {
		t.Errorf("%d doorbells for %d queue pairs in the order %v", bells, k, order)
	}
	sent := d.CarryOut()
	if len(sent) != len(order) {
		t.Fatalf("the device saw %d sends of %d", len(sent), len(order))
	}
	last := map[uint32]Sent{}
	for _, s := range sent {
		if was, ok := last[s.QPN]; ok && was.Imm >= s.Imm {
			t.Errorf("queue pair %#x: send %d comes after %d", s.QPN, s.Imm, was.Imm)
		}
		if s.QPN != d.QPN(order[s.Imm]) || s.DestQPN != 0x48 || s.Len != size || !s.Inline {
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

// Two bursts are two doorbells: the count is of calls, not of what is under way.
func TestBurstsAreNotJoined(t *testing.T) {
	d := testDoor(t, Sizes{QPs: 2, Receives: 64})
	before := d.SendBells()
	d.Post([]int{0, 1, 0}, 10)
	d.Post([]int{1}, 10)
	if bells := d.SendBells() - before; bells != 3 {
		t.Errorf("%d doorbells, want 2 and 1", bells)
	}
	if sent := d.CarryOut(); len(sent) != 4 {
		t.Errorf("the device saw %d sends, want 4", len(sent))
	}
}

// Payloads of up to 64 bytes travel inline, around the ring's end, too; longer ones are pointed at.
func TestPayloads(t *testing.T) {
	for _, size := range []int{1, 59, 60, 61, 64, 65, 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := testDoor(t, Sizes{Receives: 64, Depth: 16})
			want := Sent{QPN: d.QPN(0), DestQPN: 0x48, Len: size, Inline: size <= 64}
			if want.Inline {
				want.Sum = size * payloadByte
			}
			for range 100 {
				d.Post([]int{0, 0, 0}, size)
				for i, s := range d.CarryOut() {
					want.Imm, want.Signaled = uint32(i), s.Signaled
					if s != want {
						t.Fatalf("%+v, want %+v", s, want)
					}
				}
			}
		})
	}
}

// Buffers go round, and each of a round's messages is for the next queue pair.
func TestReceive(t *testing.T) {
	const qps, receives, size = 3, 128, 100
	d := testDoor(t, Sizes{QPs: qps, Receives: receives})
	for i := 0; i < 50*receives; {
		if n := d.Deliver(40, size, qps); n != 40 {
			t.Fatalf("the device had buffers for %d messages", n)
		}
		got := d.Poll(maxOrder)
		if len(got) != 40 {
			t.Fatalf("the worker got %d messages of 40", len(got))
		}
		for _, r := range got {
			if r.QPN != d.QPN(i%qps) || r.Len != 40+size {
				t.Fatalf("message %d: %+v", i, r)
			}
			i++
		}
	}
	if n := d.Deliver(2*receives, size, qps); n < receives-32 || n > receives {
		t.Errorf("the device took %d buffers of %d", n, receives)
	}
	for len(d.Poll(maxOrder)) > 0 {
	}
}
