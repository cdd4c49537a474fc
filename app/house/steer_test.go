// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"causeway/config"
	"causeway/dpdk"
)

// TestRules wants a shared port to be asked for RoCE of the versions that are spoken, RoCEv2 spread over the workers, and
// for what management serves, on the first worker's queue. That the door takes such rules is the task rules.
func TestRules(t *testing.T) {
	odd := []dpdk.Match{dpdk.MatchARP, dpdk.MatchND, dpdk.MatchIGMP, dpdk.MatchMLD}
	v2 := []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6}
	for _, c := range []struct {
		name   string
		cfg    config.Config
		first  []dpdk.Match
		queues []uint16
	}{
		{"v2, one worker", config.Config{RoCE: config.RoCE{V2: true}, Workers: config.Workers{LCores: []int{3}}}, odd, []uint16{0}},
		{"both, two workers", config.Config{RoCE: config.RoCE{V1: true, V2: true}, Workers: config.Workers{LCores: []int{3, 4}}},
			append(slices.Clone(odd), dpdk.MatchRoCEv1), []uint16{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := (&House{cfg: &c.cfg}).rules()
			if len(rules) != len(v2)+len(c.first) {
				t.Fatalf("%d rules: %+v", len(rules), rules)
			}
			for i, r := range rules {
				want := dpdk.Rule{Queues: []uint16{0}}
				if i < len(v2) {
					want = dpdk.Rule{Match: v2[i], Queues: c.queues, RSS: len(c.queues) > 1}
				} else {
					want.Match = c.first[i-len(v2)]
				}
				if r.Match != want.Match || !slices.Equal(r.Queues, want.Queues) || r.RSS != want.RSS {
					t.Errorf("rule %d is %+v, want %+v", i, r, want)
				}
			}
		})
	}
}

// taskRules wants a port's every rule to be one that the Ethernet door takes: only the card is missing here.
func taskRules() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	defer h.Close()
	p, err := dpdk.OpenPort("null", dpdk.PortConfig{Pool: h.pool, RxQueues: 2, TxQueues: 2})
	if err != nil {
		return "", err
	}
	defer p.Close()
	n := 0
	for _, workers := range []int{1, 2} {
		for _, r := range (&House{cfg: &config.Config{
			RoCE:    config.RoCE{V1: true, V2: true},
			Workers: config.Workers{LCores: slices.Repeat([]int{0}, workers)},
		}}).rules() {
			if err := p.ValidateFlow(r); !errors.Is(err, dpdk.ErrNoFlow) {
				return "", fmt.Errorf("%d workers: %+v: %w", workers, r, err)
			}
			n++
		}
	}
	return fmt.Sprintf("%d rules", n), nil
}
