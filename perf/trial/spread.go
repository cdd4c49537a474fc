// SPDX-License-Identifier: Apache-2.0

package trial

import "slices"

// Spread is how far the middle half of repeated readings lies apart, as a part of their median; 0 without readings.
func Spread(readings []float64) float64 {
	v := slices.Sorted(slices.Values(readings))
	if len(v) == 0 || v[len(v)/2] == 0 {
		return 0
	}
	ends := len(v) / 4
	return (v[len(v)-1-ends] - v[ends]) / v[len(v)/2]
}

// Median is the median of readings; 0 without readings.
func Median(readings []float64) float64 {
	v := slices.Sorted(slices.Values(readings))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}
