// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
)

// BenchmarkLookup measures bulk lookup and rte_hash_lookup_bulk_data, in turn in one process (testdata/bench.c), and
// reports ns per lookup of both, and their ratio. It does its own number of rounds, whatever b.N is.
func BenchmarkLookup(b *testing.B) {
	program := compile(b, object(b, "bench.c", "-O3"), readSource(b, "table.c"), "-O3")
	for _, entries := range []int{1000, 64000, 1000000} {
		b.Run(strconv.Itoa(entries), func(b *testing.B) {
			out, err := runProgram(b, program, strconv.Itoa(entries))
			if err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			var ours, rte float64
			if _, err := fmt.Sscanf(out, "ours %f rte_hash %f", &ours, &rte); err != nil {
				b.Fatalf("%v in %q", err, out)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours, "ns/lookup")
			b.ReportMetric(rte, "rte_hash-ns/lookup")
			b.ReportMetric(ours/rte, "ratio")
		})
	}
}

// BenchmarkPutHost measures a change by management: one cgo call and one replaced entry, with a reclaim from time to
// time.
func BenchmarkPutHost(b *testing.B) {
	s := newTables(b, Config{})
	h := Host{IP: netip.AddrFrom4([4]byte{10, 0, 0, 1}), MAC: mac1, Version: 2}
	for i := 0; b.Loop(); i++ {
		h.Static = !h.Static
		must(b)(s.Hosts.Put(h))
	}
}
