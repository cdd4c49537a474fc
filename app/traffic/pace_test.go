// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pacedBy is a pacer with a fake clock, whose sleeps end later by late.
func pacedBy(rate float64, burst int, clock *time.Duration, late func() time.Duration) *pacer {
	return &pacer{
		start: *clock, step: float64(burst) / rate * float64(time.Second), now: func() time.Duration { return *clock },
		sleep: func(until time.Duration) { *clock = max(*clock, until) + late() },
	}
}

// TestPace checks that bursts never come before their time, and only as late as the last sleep was, because delays do
// not add up.
func TestPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := time.Duration(12345)
		start := clock
		rate, burst := rapid.Float64Range(0.5, 1e6).Draw(t, "rate"), rapid.IntRange(1, 100).Draw(t, "burst")
		most := 300 * time.Microsecond
		late := rapid.Int64Range(0, int64(most))
		p := pacedBy(rate, burst, &clock, func() time.Duration { return time.Duration(late.Draw(t, "late")) })
		for n := range 200 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			due := start + time.Duration(float64(n)*float64(burst)/rate*float64(time.Second))
			if off := clock - due; off < -time.Microsecond || off > 2*most {
				t.Fatalf("burst %d went %v from its time", n, off)
			}
		}
		if p.lost != 0 {
			t.Errorf("%v were given up", p.lost)
		}
	})
}

// TestPaceBehind checks that up to a second of delay is made up for, and no more.
func TestPaceBehind(t *testing.T) {
	clock := time.Duration(0)
	p := pacedBy(100, 1, &clock, func() time.Duration { return 0 })
	for range 10 {
		_ = p.wait(t.Context())
	}
	clock += 5 * time.Second
	at, n := clock, 0
	for ; clock == at; n++ {
		_ = p.wait(t.Context())
	}
	if n < 100 || n > 103 || p.lost < 3900*time.Millisecond || p.lost > 4*time.Second {
		t.Errorf("%d at once after a pause of 5 s; %v given up", n, p.lost)
	}
}

func TestPaceEnds(t *testing.T) {
	p, release := newPacer(0.1, 1)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if first, second := p.wait(ctx), p.wait(ctx); first != nil || second == nil || time.Since(began) > 9*time.Second {
		t.Errorf("%v, %v after %v", first, second, time.Since(began))
	}
	full, release2 := newPacer(0, 1)
	defer release2()
	for range 1000 {
		if err := full.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p2, release3 := newPacer(2000, 4)
	defer release3()
	began = time.Now()
	for range 101 {
		_ = p2.wait(t.Context())
	}
	if took := time.Since(began); took < 195*time.Millisecond {
		t.Errorf("400 messages at 2000 a second in %v", took)
	}
}
