// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"

	"causeway/ibside/ib"
)

// TestPart has three adapters send to each other while some of the ways between them are cut. All links stay up.
func TestPart(t *testing.T) {
	const a, b, c = ib.GUID(0xa), ib.GUID(0xb), ib.GUID(0xc)
	f := newFabric(t, Config{})
	hcas, qps, received := map[ib.GUID]*HCA{}, map[ib.GUID]*QP{}, map[ib.GUID]*RecvQueue{}
	for _, guid := range []ib.GUID{a, b, c} {
		hcas[guid], received[guid] = attachHCA(t, f, PortConfig{Name: fmt.Sprint(guid), GUID: guid}), NewRecvQueue(8)
		qps[guid] = mustQP(t, hcas[guid], QPConfig{QPN: testQPN, QKey: testQKey, Recv: received[guid]})
	}
	hears := func(from, to ib.GUID) bool {
		if cause := qps[from].Send(&Send{AH: AH{DLID: hcas[to].Info().LID}, DestQP: testQPN, QKey: testQKey}); cause != "" {
			t.Errorf("%v has not sent: %s", from, cause)
		}
		waitFor(t, "quiet subnet", f.Quiet)
		return received[to].Poll(make([]Received, 8)) == 1
	}
	type way [2]ib.GUID // from, to; 0 is whichever
	for _, cuts := range [][]way{{}, {{a, 0}}, {{0, a}}, {{a, b}, {b, a}}, {{c, b}, {a, 0}}} {
		parted := map[way]bool{}
		for _, w := range cuts {
			f.Part(w[0], w[1], true)
			parted[w] = true
		}
		for from := range qps {
			for to := range qps {
				if from == to {
					continue
				}
				want := !parted[way{from, to}] && !parted[way{from, 0}] && !parted[way{0, to}]
				if got := hears(from, to); got != want {
					t.Errorf("cut %v: %v hears %v: %v, want %v", cuts, to, from, got, want)
				}
			}
			if down := hcas[from].Down(); down != "" {
				t.Errorf("cut %v: %v says: %s", cuts, from, down)
			}
		}
		for _, w := range cuts {
			f.Part(w[0], w[1], false)
		}
	}
	if sw, _ := f.Stats(); sw.Drops[DropInjected] == 0 || sw.Drops.Sum() != sw.Drops[DropInjected] {
		t.Errorf("the switch has dropped %v, want only %s", sw.Drops, DropInjected)
	}
}
