// SPDX-License-Identifier: Apache-2.0

package bench

import "testing"

// A short reading of every use: each moves messages and drops none (else portRows fails), no mbuf is lost (else closing
// fails), and a burst costs one doorbell for each of its queue pairs.
func TestPortRows(t *testing.T) {
	cfg := short()
	rows, err := portRows(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(portUses()); len(rows) != want {
		t.Fatalf("%d rows of %d", len(rows), want)
	}
	gates := 0
	for _, r := range rows {
		if r.NS <= 0 || r.OverNS <= 0 || r.Value <= 0 || r.DeviceNS <= 0 || r.Over != libmlx5 {
			t.Errorf("%+v", r)
		}
		if r.Limit != nil {
			gates++
		}
	}
	if gates != 4 {
		t.Errorf("%d gates, want 2 of posting and 2 of polling", gates)
	}
}

// How many doorbells a message costs: one for each queue pair of a burst; none for what is received.
func TestDoorbells(t *testing.T) {
	cfg := short()
	for _, way := range []string{direct, libmlx5} {
		for _, u := range []portUse{{false, 1, 1}, {false, 1, 8}, {false, 1, 64}, {false, 256, 1}, {false, 256, 8}, {false, 256, 64}, {true, 256, 64}} {
			p, err := newVerbsPort(u.qps, way)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.read(&cfg, u)
			if err != nil {
				t.Fatal(err)
			}
			low, high := 1/float64(u.burst), 1/float64(u.burst)
			switch {
			case u.polls:
				low, high = 0, 0
			case u.qps > 1 && u.burst > 1: // draws of 256: 1 - (1 - 1/256)^n queue pairs for n messages
				low, high = 0.86, 0.995
			}
			if r.bells < low || r.bells > high {
				t.Errorf("%s, %v, %d queue pairs: %v doorbells a message, want %v to %v", way, u, u.qps, r.bells, low, high)
			}
			if err := p.close(); err != nil {
				t.Error(err)
			}
		}
	}
}
