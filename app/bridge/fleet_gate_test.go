// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"testing"
	"time"

	"causeway/fleet/shards"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// TestForwards: a part says of each shard whether it is open.
func TestForwards(t *testing.T) {
	open := []shards.Shard{0, 63, 64, 64 + 4095}
	p := Part{Open: setOf(open)}
	for s := range shards.Shard(shards.Count) {
		if got, want := p.Forwards(s), slices.Contains(open, s); got != want {
			t.Errorf("%v: %t", s, got)
		}
	}
	if hosts, groups := countOf(&p.Open); hosts != 2 || groups != 2 {
		t.Errorf("%d host and %d group shards", hosts, groups)
	}
}

// TestAnsweredOf: hosts reach a bridge for what it has open, or holds and is to have, and not for what it leaves, even if it was held
// just before.
func TestAnsweredOf(t *testing.T) {
	of := func(hosts uint64) lcore.Shards { return lcore.Shards{Hosts: hosts} }
	for want, p := range map[uint64]lcore.Part{
		0:     {},
		0b11:  {Open: of(0b11)},
		0b01:  {Open: of(0b11), Leave: of(0b10)},
		0b10:  {Hold: of(0b11), Attracts: 0b10},
		0b110: {Open: of(0b111), Leave: of(0b001), Hold: of(0b011), Attracts: 0b001},
		0b100: {Open: of(0b011), Leave: of(0b011), Hold: of(0b111), Attracts: 0b111},
	} {
		if got := answeredOf(&p); got != want {
			t.Errorf("%+v: %b, want %b", p, got, want)
		}
	}
}

// TestRemind: each shard that hosts reach here is announced once a second, in turn, also after the bridge stood still; and none
// without a lease.
func TestRemind(t *testing.T) {
	var told []frame.MAC
	g := &shardGate{virtual: frame.MAC{2, 1}, reminder: func(macs []frame.MAC) { told = append(told, macs...) }}
	g.answered.Store(1<<5 | 1<<63)
	now := time.Now()
	for _, c := range []struct {
		lease    time.Duration
		lets     time.Duration
		of, want int
	}{{time.Hour, 0, 1, 0}, {time.Hour, time.Second, 1, 2}, {time.Hour, 10 * time.Millisecond, 1000, 20}, {time.Hour, time.Hour, 1, 2}, {-time.Second, time.Second, 10, 0}} {
		until := time.Now().Add(c.lease)
		g.deadline.Store(&until)
		told = nil
		for range c.of {
			now = now.Add(c.lets)
			g.remind(now)
		}
		if len(told) != c.want {
			t.Errorf("%d times %v: %d announcements, want %d", c.of, c.lets, len(told), c.want)
		}
		for _, mac := range told {
			if mac != macOf(g.virtual, 5) && mac != macOf(g.virtual, 63) {
				t.Errorf("%v is another bridge's", mac)
			}
		}
	}
}

// TestLeavesNothing: a bridge that forwards nothing, or cannot, has nothing to pass on without a loss: its shards stay as they are.
func TestLeavesNothing(t *testing.T) {
	open := lcore.Part{Open: lcore.Shards{Hosts: 0b11}}
	for _, c := range []struct {
		barred bool
		unable string
	}{{true, ""}, {false, "an Ethernet port has no link"}} {
		g := &shardGate{barred: c.barred, unable: func() string { return c.unable }, part: open}
		if g.Leave([]shards.Shard{0}) || g.part != open {
			t.Errorf("barred %t, unable %q: it leaves %+v", c.barred, c.unable, g.part)
		}
	}
}
