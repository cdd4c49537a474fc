// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/perf/dut"
	"causeway/tables"
)

// strangers are RoCE hosts beside those of the traffic, with stand-ins that come and go.
const (
	strangers      = 2000
	standInsOfEach = 50
	updates        = 200_000
)

func stranger(i int) netip.Addr {
	a := [4]byte{172}
	binary.BigEndian.PutUint16(a[2:], uint16(i))
	return netip.AddrFrom4(a)
}

func strangersStandIn(i int) tables.StandIn {
	return tables.StandIn{
		Host: stranger(i % strangers), HostQPN: ib.QPN(0x100 + i/strangers), QPN: ib.QPN(0x800000 + i), QKey: 0x1234567, Version: 2,
	}
}

// churn replaces stand-ins, each by a new one and the old one back, and has hosts move, until that was many updates.
func churn(t *tables.Tables) (took time.Duration, err error) {
	start := time.Now()
	for n := 0; n < updates; n += 4 {
		s := strangersStandIn(n % (strangers * standInsOfEach))
		if err := t.DeleteStandIn(s.Host, s.HostQPN); err != nil {
			return 0, err
		}
		other := s
		other.QPN += 0x400000
		if _, err := t.PutStandIn(other); err != nil {
			return 0, err
		}
		if _, err := t.PutStandIn(s); err != nil {
			return 0, err
		}
		mac := [6]byte{2, 1, 0, 0, byte(n >> 8), byte(n)}
		if _, err := t.PutHost(tables.Host{IP: s.Host, MAC: mac, Version: 2}); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// With a hundred thousand stand-ins beside it on the shelves, of which tens of thousands change in a second, traffic crosses
// whole, without a drop. How many a second is logged; it is the tables' benchmark that measures it.
func TestChurn(t *testing.T) {
	b := build(t, dut.Traffic{Payloads: []int{64, 1024}, Flows: 100, IP: []int{4, 6}, Groups: 20, Share: 0.2})
	for i := range strangers * standInsOfEach {
		s := strangersStandIn(i)
		if i < strangers {
			if _, err := b.Tables().PutHost(tables.Host{IP: s.Host, MAC: [6]byte{2, 1}, Version: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Tables().PutStandIn(s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, ended := context.WithCancel(t.Context())
	defer ended()
	var took time.Duration
	var err error
	go func() {
		defer ended()
		took, err = churn(b.Tables())
	}()
	crossed := uint64(0)
	for ctx.Err() == nil {
		o, err := b.Run(t.Context(), light())
		if err != nil {
			t.Fatal(err)
		}
		checkWhole(t, o, light().Packets)
		crossed += o.Taken
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets crossed whole beside %.0f updates a second", crossed, updates/took.Seconds())
}
