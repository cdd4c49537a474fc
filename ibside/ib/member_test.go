// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"testing"

	"causeway/ibside/ib"
)

func TestJoinStates(t *testing.T) {
	for _, c := range []struct {
		receive, nonMember bool
		want               uint8
	}{
		{true, false, ib.JoinFull}, {false, false, ib.JoinSendOnlyFull}, {true, true, ib.JoinNonMember}, {false, true, ib.JoinSendOnly},
	} {
		if got := ib.JoinStateOf(c.receive, c.nonMember); got != c.want {
			t.Errorf("receives %t, non-member %t: %d, want %d", c.receive, c.nonMember, got, c.want)
		}
	}
}

// TestTooLarge: a value that has no room loses its upper bits, and no other field gets them.
func TestTooLarge(t *testing.T) {
	const all = 0xff
	member := ib.MCMemberFields{MTU: all, Rate: all, Life: all, FlowLabel: 0xffffffff, JoinState: all}
	wantMember := ib.MCMemberFields{MTU: 0x3f, Rate: 0x3f, Life: 0x3f, FlowLabel: 0xfffff, JoinState: 0xf}
	if got := ib.PutMCMemberRecord(make([]byte, ib.MCMemberRecordLen), member).Fields(); got != wantMember {
		t.Errorf("MCMemberRecord: %+v, want %+v", got, wantMember)
	}
	path := ib.PathFields{FlowLabel: 0xffffffff, NumbPath: all, SL: all, MTU: all, Rate: all, Life: all}
	wantPath := ib.PathFields{FlowLabel: 0xfffff, NumbPath: 0x7f, SL: 0xf, MTU: 0x3f, Rate: 0x3f, Life: 0x3f}
	if got := ib.PutPathRecord(make([]byte, ib.PathRecordLen), path).Fields(); got != wantPath {
		t.Errorf("PathRecord: %+v, want %+v", got, wantPath)
	}
}
