// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"causeway/lcore"
)

// TestAnsweredOf: hosts reach a bridge for what it has open or holds, and not for what it leaves, even if it was held just before.
func TestAnsweredOf(t *testing.T) {
	of := func(hosts uint64) lcore.Shares { return lcore.Shares{Hosts: hosts} }
	for want, p := range map[uint64]lcore.Part{
		0:     {},
		0b11:  {Open: of(0b11)},
		0b01:  {Open: of(0b11), Leave: of(0b10)},
		0b10:  {Hold: of(0b10)},
		0b110: {Open: of(0b111), Leave: of(0b001), Hold: of(0b011)},
		0b100: {Open: of(0b011), Leave: of(0b011), Hold: of(0b111)},
	} {
		if got := answeredOf(&p); got != want {
			t.Errorf("%+v: %b, want %b", p, got, want)
		}
	}
}
