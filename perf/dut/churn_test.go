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

// strangers are RoCE hosts that send no traffic, with proxy QPs that change.
const (
	strangers      = 2000
	proxyQPsOfEach = 50
	updates        = 200_000
)

func stranger(i int) netip.Addr {
	a := [4]byte{172}
	binary.BigEndian.PutUint16(a[2:], uint16(i))
	return netip.AddrFrom4(a)
}

func strangersProxyQP(i int) tables.ProxyQP {
	return tables.ProxyQP{
		HostQP: tables.HostQP{Host: stranger(i % strangers), HostQPN: ib.QPN(0x100 + i/strangers)}, QPN: ib.QPN(0x800000 + i), QKey: 0x1234567, Version: 2,
	}
}

// churn replaces proxy QPs by new ones and back, and moves hosts, until it has made all updates.
func churn(t *tables.Tables) (took time.Duration, err error) {
	start := time.Now()
	for n := 0; n < updates; n += 4 {
		s := strangersProxyQP(n % (strangers * proxyQPsOfEach))
		if err := t.ProxyQPs.Delete(tables.HostQP{Host: s.Host, HostQPN: s.HostQPN}); err != nil {
			return 0, err
		}
		other := s
		other.QPN += 0x400000
		if _, err := t.ProxyQPs.Put(other); err != nil {
			return 0, err
		}
		if _, err := t.ProxyQPs.Put(s); err != nil {
			return 0, err
		}
		mac := [6]byte{2, 1, 0, 0, byte(n >> 8), byte(n)}
		if _, err := t.Hosts.Put(tables.Host{IP: s.Host, MAC: mac, Version: 2}); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// While tens of thousands of a hundred thousand proxy QPs change every second, all traffic is forwarded without a drop.
// The rate of changes is only logged; the tables' benchmark measures it.
func TestChurn(t *testing.T) {
	d := buildDrained(t, 1, 5*time.Second, dut.Traffic{Payloads: []int{64, 1024}, Flows: 100, IP: []int{4, 6}, Groups: 20, Share: 0.2})
	for i := range strangers * proxyQPsOfEach {
		s := strangersProxyQP(i)
		if i < strangers {
			if _, err := d.Tables().Hosts.Put(tables.Host{IP: s.Host, MAC: [6]byte{2, 1}, Version: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Tables().ProxyQPs.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, ended := context.WithCancel(t.Context())
	defer ended()
	var took time.Duration
	var err error
	go func() {
		defer ended()
		took, err = churn(d.Tables())
	}()
	crossed := uint64(0)
	for ctx.Err() == nil {
		o, err := d.Run(t.Context(), light())
		if err != nil {
			t.Fatal(err)
		}
		checkWhole(t, o, light().Packets)
		crossed += o.Taken
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets were forwarded beside %.0f updates a second", crossed, updates/took.Seconds())
}
