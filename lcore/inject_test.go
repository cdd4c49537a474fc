// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

func (s *rig) inject(d lcore.Direction, i lcore.Injection) {
	s.t.Helper()
	if err := s.datapath.Inject(d, i); err != nil {
		s.t.Fatal(err)
	}
}

// numbered passes n packets in, numbered from first, in bursts of the given size, and returns the numbers that came out
// at once.
func (s *rig) numbered(d lcore.Direction, first, n, burst int) (out []int) {
	s.t.Helper()
	for i := first; i < first+n; i += burst {
		var frames [][]byte
		var msgs []message
		for k := i; k < min(i+burst, first+n); k++ {
			frames = append(frames, v4(func(p *roce.Packet) { p.QKey, p.Payload = ib.QKey(k), pattern(k%300) }))
			msgs = append(msgs, received(func(m *message) { m.Payload = pattern(k) }))
		}
		if d == lcore.RoCEToIB {
			s.fromRoCE(frames...)
		} else {
			s.fromIB(msgs...)
		}
		out = append(out, s.numbers(d)...)
	}
	return out
}

// numbers takes the packets that came out, checks them, and returns their numbers.
func (s *rig) numbers(d lcore.Direction) (out []int) {
	s.t.Helper()
	if d == lcore.RoCEToIB {
		for _, m := range s.toIB(0) {
			out = append(out, int(m.QKey))
			if string(m.Payload) != string(pattern(int(m.QKey)%300)) {
				s.t.Errorf("message %d is %x", m.QKey, m.Payload)
			}
		}
		return out
	}
	for _, f := range s.toRoCE(0) {
		p, err := roce.Parse(f)
		if err != nil || string(p.Payload) != string(pattern(len(p.Payload))) {
			s.t.Errorf("frame %x: %v", f, err)
		}
		out = append(out, len(p.Payload))
	}
	return out
}

var ways = []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE}

func counting(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// About the requested share is dropped, the rest arrives unchanged and in order, and the other direction is not
// affected.
func TestInjectDrop(t *testing.T) {
	for _, d := range ways {
		s := newRig(t, smallFixture())
		s.inject(d, lcore.Injection{Drop: 0.25, Seed: 7})
		out := s.numbered(d, 0, 2000, 64)
		c := s.counters(d)
		dropped := c.Drops[mustDrop(t, "injected")]
		if dropped < 400 || dropped > 600 || len(out) != 2000-int(dropped) || c.Received != 2000 || !slices.IsSorted(out) {
			t.Errorf("%v: %d of %d dropped, %d came", d, dropped, c.Received, len(out))
		}
		if other := s.numbered(1-d, 0, 200, 64); !slices.Equal(other, counting(200)) {
			t.Errorf("the other way: %v", other)
		}
	}
}

func mustDrop(t *testing.T, name string) lcore.Drop {
	t.Helper()
	for d := range named(t, name) {
		return d
	}
	panic("no such drop")
}

// A duplicate equals its original, and counts as received. Bursts do not become larger for it.
func TestInjectDuplicate(t *testing.T) {
	for _, d := range ways {
		s := newRig(t, smallFixture())
		s.dirtyMbufs()
		s.inject(d, lcore.Injection{Duplicate: 1})
		var want []int
		for i := range 200 {
			want = append(want, i, i)
		}
		if got := s.numbered(d, 0, 200, 200); !slices.Equal(got, want) {
			t.Errorf("%v: %v", d, got)
		}
		s.inject(d, lcore.Injection{Duplicate: 0.5})
		n := len(s.numbered(d, 0, 1000, 100))
		c := s.counters(d)
		if n < 1400 || n > 1600 || c.Received != uint64(400+n) || c.Sent != c.Received {
			t.Errorf("%v: %d of 1000 came, received %d, sent %d", d, n, c.Received, c.Sent)
		}
	}
}

// Without free mbufs there are no duplicates, and no packet is lost.
func TestInjectDuplicateWithoutMbufs(t *testing.T) {
	s := newRig(t, smallFixture())
	s.inject(lcore.RoCEToIB, lcore.Injection{Duplicate: 1})
	for s.pool.InUse() < s.pool.Size()-90 {
		m, err := s.pool.Alloc(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
	}
	s.numbered(lcore.RoCEToIB, 0, 60, 60)
	if c := s.counters(lcore.RoCEToIB); c.Sent < 60 || c.Sent >= 120 || c.Sent != c.Received {
		t.Errorf("received %d, sent %d", c.Received, c.Sent)
	}
}

// await takes packets that come out until there are n.
func (s *rig) await(d lcore.Direction, got []int, n int) []int {
	for end := time.Now().Add(time.Minute); len(got) < n && time.Now().Before(end); {
		s.work()
		got = append(got, s.numbers(d)...)
	}
	return got
}

// Pairs change places, and a packet without a successor does not wait for ever. Both come out in one burst.
func TestInjectReorder(t *testing.T) {
	const n = 31
	var pairs []int
	for i := 0; i+1 < n; i += 2 {
		pairs = append(pairs, i+1, i)
	}
	for _, d := range ways {
		s := newRig(t, smallFixture())
		s.inject(d, lcore.Injection{Reorder: 1})
		for range 3 {
			got := s.await(d, s.numbered(d, 0, n, n), n)
			if !slices.Equal(got, append(pairs, n-1)) {
				t.Errorf("%v: %v", d, got)
			}
		}
	}
}

// A delayed packet comes out after its time, in order, and is counted when it does.
func TestInjectDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	for _, d := range ways {
		s := newRig(t, smallFixture())
		s.inject(d, lcore.Injection{DelayShare: 1, Delay: delay})
		began := time.Now()
		got := s.numbered(d, 0, 200, 64)
		if early := time.Since(began) < delay; early && (len(got) > 0 || s.counters(d).Received != 0 || s.pool.InUse() != 200) {
			t.Errorf("%v: %d came at once, %d counted, %d mbufs in use", d, len(got), s.counters(d).Received, s.pool.InUse())
		}
		for end := time.Now().Add(time.Minute); len(got) < 200 && time.Now().Before(end); {
			s.work()
			more := s.numbers(d)
			if len(more) > 0 && time.Since(began) < delay-delay/100 {
				t.Errorf("%v: %d came after %v", d, len(more), time.Since(began))
			}
			got = append(got, more...)
		}
		if !slices.Equal(got, counting(200)) || s.counters(d).Received != 200 {
			t.Errorf("%v: %d received; came %v", d, s.counters(d).Received, got)
		}
	}
}

// A worker delays no more packets than its part of the pool: others then go at once.
func TestInjectDelayLeavesThePool(t *testing.T) {
	s := newRig(t, smallFixture())
	const most = rigMbufs / 8 / 2
	s.inject(lcore.RoCEToIB, lcore.Injection{DelayShare: 1, Delay: lcore.MaxInjectedDelay})
	got := s.numbered(lcore.RoCEToIB, 0, 1000, 100)
	want(t, "came at once", len(got), 1000-most)
	want(t, "held", s.pool.InUse(), most)
	s.inject(lcore.RoCEToIB, lcore.Injection{})
	s.work()
	if got := s.numbers(lcore.RoCEToIB); !slices.Equal(got, counting(most)) {
		t.Errorf("switched off: %d came: %v", len(got), got)
	}
	if got := s.numbered(lcore.RoCEToIB, 0, 100, 100); !slices.Equal(got, counting(100)) {
		t.Errorf("off: %v", got)
	}
}

// Bursts stay within their limit when at once all packets are duplicated, delayed ones come out and some wait for a
// successor.
func TestInjectFillsBursts(t *testing.T) {
	const chunk = 128
	for _, d := range ways {
		s := newRig(t, smallFixture())
		s.inject(d, lcore.Injection{Duplicate: 1, Reorder: 0.5, DelayShare: 0.5, Delay: time.Millisecond})
		var got []int
		for i := range 6 {
			got = append(got, s.numbered(d, i*chunk, chunk, chunk)...)
			time.Sleep(2 * time.Millisecond) // the delayed ones are due when more come
		}
		got = s.await(d, got, 12*chunk)
		slices.Sort(got)
		var twice []int
		for i := range 6 * chunk {
			twice = append(twice, i, i)
		}
		if !slices.Equal(got, twice) {
			t.Errorf("%v: %v", d, got)
		}
	}
}

// fates says for each packet how often it came out at once.
func fates(t *testing.T, d lcore.Direction, i lcore.Injection, burst int) (out [600]int) {
	t.Helper()
	t.Run("", func(t *testing.T) {
		s := newRig(t, smallFixture())
		s.inject(d, i)
		for _, n := range s.numbered(d, 0, len(out), burst) {
			out[n]++
		}
		s.inject(d, lcore.Injection{})
		s.work()
		s.numbers(d)
	})
	return out
}

// The same seed and packets have the same fates, however they come; other seeds and the other direction have others.
func TestInjectBySeed(t *testing.T) {
	i := lcore.Injection{Drop: 0.2, Duplicate: 0.3, DelayShare: 0.3, Delay: 10 * time.Second, Seed: 42}
	var seen [][600]int
	for _, d := range ways {
		first := fates(t, d, i, 600)
		for _, burst := range []int{1, 7, 64} {
			if fates(t, d, i, burst) != first {
				t.Errorf("%v: bursts of %d have other fates", d, burst)
			}
		}
		seen = append(seen, first)
	}
	i.Seed++
	seen = append(seen, fates(t, lcore.RoCEToIB, i, 64))
	for a := range seen {
		for b := range a {
			if seen[a] == seen[b] {
				t.Errorf("fates %d and %d are the same", a, b)
			}
		}
	}
	i.Drop = 0.6 // more are dropped, and among them all that were dropped before
	more, before := fates(t, lcore.RoCEToIB, i, 64), seen[2]
	for n := range more {
		if more[n] > before[n] {
			t.Errorf("packet %d came %d times, and %d times when fewer were dropped", n, more[n], before[n])
		}
	}
}

// A wrong setting gives an error of one line, and changes nothing.
func TestInjectRejected(t *testing.T) {
	s := newRig(t, smallFixture())
	good := lcore.Injection{Drop: 0.5, Seed: 3}
	s.inject(lcore.IBToRoCE, good)
	for _, c := range []struct {
		d    lcore.Direction
		i    lcore.Injection
		want string
	}{
		{lcore.IBToRoCE, lcore.Injection{Drop: 1.01}, "packets to drop is 1.01"},
		{lcore.IBToRoCE, lcore.Injection{Duplicate: -0.1}, "packets to duplicate is -0.1"},
		{lcore.IBToRoCE, lcore.Injection{Reorder: math.NaN()}, "packets to reorder is NaN"},
		{lcore.IBToRoCE, lcore.Injection{DelayShare: math.Inf(1), Delay: 1}, "give 0 to 1"},
		{lcore.IBToRoCE, lcore.Injection{DelayShare: 0.1}, "give a delay"},
		{lcore.IBToRoCE, lcore.Injection{Delay: time.Second}, "give their share"},
		{lcore.IBToRoCE, lcore.Injection{DelayShare: 0.1, Delay: 11 * time.Second}, "0 to 10s"},
		{lcore.IBToRoCE, lcore.Injection{DelayShare: 0.1, Delay: -1}, "-1ns"},
		{2, lcore.Injection{}, "no direction 2"},
		{-1, lcore.Injection{}, "no direction -1"},
	} {
		err := s.datapath.Inject(c.d, c.i)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want one line with %q", c.i, err, c.want)
		}
	}
	want(t, "in force", s.datapath.Injections(), [2]lcore.Injection{lcore.IBToRoCE: good})
}
