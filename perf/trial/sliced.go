// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"time"
)

// Sliced runs each trial in slices, and counts only those in which neither the device nor the generator stood still: on
// a machine that others share, a stall of some milliseconds overruns every queue, and says nothing of the device. It
// implements Device.
//
// A device that stalls by itself is not told from one that was stalled; how much was discarded is in the outcome. On
// a machine of its own a device is measured without slices.
type Sliced struct {
	Device
	Slice time.Duration // of the load's duration
	Stall time.Duration // the longest standstill that counts as none
	Tries int           // slices run for each that must count, on average; then what there is must do; 0: four
	// Longest is for how many times a load's duration, and a second, it goes on at most, whatever has been found; 0: six.
	Longest int
	// Progress hears how much of a trial there is, 0 to 1; nil: nobody does.
	Progress func(done float64)
}

// Run implements Device.
func (s Sliced) Run(ctx context.Context, l Load) (Outcome, error) {
	want, end := 1, time.Now().Add(time.Duration(cmp.Or(s.Longest, 6))*l.Duration+time.Second)
	if l.Packets == 0 {
		want = max(1, int(l.Duration/s.Slice))
		l.Duration = min(l.Duration, s.Slice)
	}
	var sum, worst Outcome
	good := 0
	for tries := want*cmp.Or(s.Tries, 4) + 16; tries > 0 && time.Now().Before(end); tries-- {
		o, err := s.Device.Run(ctx, l)
		if err != nil {
			return o, err
		}
		if !s.clean(o) && faults(o) == "" { // faults are the device's, whatever else happened
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
	if 2*good < want { // too little to judge by
		sum.Disturbed = max(sum.Disturbed, sum.Elapsed)
	} else {
		sum.Disturbed = 0
	}
	return sum, nil
}

func (s Sliced) clean(o Outcome) bool {
	return o.Away <= s.Stall && o.Silence <= s.Stall && o.Disturbed <= s.Stall
}
