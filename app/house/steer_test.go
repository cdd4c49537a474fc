// SPDX-License-Identifier: Apache-2.0

package house

import (
	"slices"
	"testing"

	"causeway/config"
	"causeway/dpdk"
)

// TestRules wants a shared port to be asked for RoCE of the versions that are spoken, spread over the workers, and for
// what management serves, on the first worker's queue.
func TestRules(t *testing.T) {
	odd := []dpdk.Match{dpdk.MatchARP, dpdk.MatchND, dpdk.MatchIGMP, dpdk.MatchMLD}
	v2 := []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6}
	for _, c := range []struct {
		name   string
		cfg    config.Config
		data   []dpdk.Match
		queues []uint16
	}{
		{"v2, one worker", config.Config{RoCE: config.RoCE{V2: true}, Workers: config.Workers{LCores: []int{3}}}, v2, []uint16{0}},
		{"both, two workers", config.Config{RoCE: config.RoCE{V1: true, V2: true}, Workers: config.Workers{LCores: []int{3, 4}}},
			append(slices.Clone(v2), dpdk.MatchRoCEv1), []uint16{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := (&House{cfg: &c.cfg}).rules()
			if len(rules) != len(c.data)+len(odd) {
				t.Fatalf("%d rules: %+v", len(rules), rules)
			}
			for i, r := range rules {
				want := dpdk.Rule{Queues: []uint16{0}}
				if i < len(c.data) {
					want = dpdk.Rule{Match: c.data[i], Queues: c.queues, RSS: len(c.queues) > 1}
				} else {
					want.Match = odd[i-len(c.data)]
				}
				if r.Match != want.Match || !slices.Equal(r.Queues, want.Queues) || r.RSS != want.RSS {
					t.Errorf("rule %d is %+v, want %+v", i, r, want)
				}
			}
		})
	}
}
