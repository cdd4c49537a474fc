// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"testing"

	"causeway/ibside/ib"
)

func TestChanged(t *testing.T) {
	was := ib.PortState{Active: true, GID: ib.GID{15: 1}, LID: 3, LMC: 1, SMLID: 1}
	for _, c := range []struct {
		name   string
		change func(before, now *ib.PortState)
		want   Event
	}{
		{"nothing", func(_, _ *ib.PortState) {}, ""},
		{"SL", func(_, now *ib.PortState) { now.SMSL = 2 }, ""}, // each request reads it again
		{"LID", func(_, now *ib.PortState) { now.LID++ }, LIDChange},
		{"LMC", func(_, now *ib.PortState) { now.LMC++ }, LIDChange},
		{"GID", func(_, now *ib.PortState) { now.GID[0]++ }, LIDChange},
		{"SM", func(_, now *ib.PortState) { now.SMLID++ }, SMChange},
		{"SM and LID", func(_, now *ib.PortState) { now.SMLID++; now.LID++ }, SMChange},
		{"down", func(_, now *ib.PortState) { now.Active = false }, PortDown},
		{"up", func(before, _ *ib.PortState) { before.Active = false }, PortActive},
		{"up with another LID", func(before, now *ib.PortState) { before.Active = false; now.LID++ }, PortActive},
		{"another LID while down", func(before, now *ib.PortState) { before.Active, now.Active = false, false; now.LID++ }, LIDChange},
	} {
		before, now := was, was
		c.change(&before, &now)
		if got := changed(before, now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
