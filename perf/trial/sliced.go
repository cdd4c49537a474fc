// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"time"
)

// Sliced runs each trial in slices, and discards slices in which the device or the generator stalled: on a shared
// machine, a stall of some milliseconds overruns every queue, whatever the device is. It implements Device.
//
// Stalls that the device causes itself are discarded as well; the outcome has how much was. On a dedicated machine
// measure without slices.
type Sliced struct {
	Device
	Slice time.Duration // of the load's duration
	Stall time.Duration // a slice with a longer stall is discarded
	// Progress is called with how much of a trial is done, 0 to 1; may be nil.
	Progress func(done float64)
}

// A trial ends, whatever it has, after sliceTries slices for each that must count, on average, or after longest times
// the load's duration.
const sliceTries, longest = 4, 6

// Run implements Device.
func (s Sliced) Run(ctx context.Context, l Load) (Outcome, error) {
	want, end := 1, time.Now().Add(time.Duration(longest)*l.Duration+time.Second)
	if l.Packets == 0 {
		want = max(1, int(l.Duration/s.Slice))
		l.Duration = min(l.Duration, s.Slice)
	}
	var sum, worst Outcome
	good := 0
	for tries := want*sliceTries + 16; tries > 0 && time.Now().Before(end); tries-- {
		o, err := s.Device.Run(ctx, l)
		if err != nil {
			return o, err
		}
		if !s.clean(o) && faults(o) == "" { // faults always count
			sum.Discarded += o.Elapsed
			worst = o
			continue
		}
		discarded, elapsed := sum.Discarded, sum.Elapsed+o.Elapsed
		if good == 0 {
			sum = o
			sum.Discarded = discarded
		} else {
			sum.Merge(o)
		}
		sum.Elapsed = elapsed
		good++
		if s.Progress != nil {
			s.Progress(float64(good) / float64(want))
		}
		if good == want {
			break
		}
	}
	if good == 0 {
		worst.Discarded = sum.Discarded
		worst.Disturbed = max(worst.Disturbed, worst.Elapsed)
		return worst, nil
	}
	if 2*good < want { // too few
		sum.Disturbed = max(sum.Disturbed, sum.Elapsed)
	} else {
		sum.Disturbed = 0
	}
	return sum, nil
}

func (s Sliced) clean(o Outcome) bool {
	return o.Away <= s.Stall && o.Silence <= s.Stall && o.Disturbed <= s.Stall
}
