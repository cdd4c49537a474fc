// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"testing"
	"time"

	"causeway/app/slowtest"
)

// Bound measures how slow the machine is from now on. What it returns stretches by that how much of a time may be lost; nothing stays
// nothing.
func Bound(t *testing.T) (stretch func(most time.Duration) time.Duration) {
	t.Helper()
	meter, err := slowtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	return func(most time.Duration) time.Duration {
		t.Helper()
		defer meter.Close()
		if most == 0 {
			return 0
		}
		return slowtest.Stretch(t, most, meter.Worst())
	}
}
