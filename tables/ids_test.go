// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"slices"
	"syscall"
	"testing"
)

// fakeReaders have been quiescent since each token up to quiet.
type fakeReaders struct{ given, quiet uint64 }

func (r *fakeReaders) token() uint64 {
	r.given++
	return r.given
}

func (r *fakeReaders) passed(token uint64) bool { return token <= r.quiet }

// TestIDs checks that no more ids are given out than there are, and that none is given out again that a reader may still count under.
func TestIDs(t *testing.T) {
	readers := &fakeReaders{}
	p := ids{what: "host", limit: "MaxHosts", max: 3, readers: readers}
	take := func(n int) (got []uint32) {
		for range n {
			id, err := p.take()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		slices.Sort(got)
		return got
	}
	full := func(when string) {
		t.Helper()
		if id, err := p.take(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: id %d is given out, %v", when, id, err)
		}
	}
	if got := take(3); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("the first are %v", got)
	}
	full("all are taken")
	p.retire(2)
	p.retire(0)
	full("readers may use what was given back")
	readers.quiet = 1
	if got := take(1); got[0] != 2 {
		t.Errorf("id %d is given out, which readers may use", got[0])
	}
	full("readers may use the other one")
	readers.quiet = 2
	if got := take(1); got[0] != 0 {
		t.Errorf("id %d", got[0])
	}
}
