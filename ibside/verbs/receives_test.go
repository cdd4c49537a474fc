// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"

	"causeway/ibside"
)

// TestReceives checks that receive buffers take what a worker receives in 1 ms, within the mempool and the device; and
// that only the device bounds a number that the configuration gives.
func TestReceives(t *testing.T) {
	large, small := newPool(t, 24576, 128), newPool(t, 6000, 128)
	const edr, rxe, gigabit = 100_000, 2500, 1000
	ample := limits{receives: 32767, completions: 4 << 20}
	for _, c := range []struct {
		name           string
		config         Config
		mbps           int
		ethernet       bool
		device         limits
		wanted, posted int
		bound          string
	}{
		{"full rate", Config{Pool: large, Workers: 1}, edr, false, ample, 8192, 8192, ""},
		{"two workers", Config{Pool: large, Workers: 2}, edr, false, ample, 8192, 4096, "a third of [workers] mbufs"},
		{"a small pool", Config{Pool: small, Workers: 1}, edr, false, ample, 8192, 2000, "a third of [workers] mbufs"},
		{"hardly any", Config{Pool: small, Workers: 64}, edr, false, ample, 8192, 64, "a third of [workers] mbufs"},
		{"the rate is not known", Config{Pool: large, Workers: 1}, 0, true, ample, 8192, 8192, ""},
		{"InfiniBand's slowest link", Config{Pool: large, Workers: 1}, rxe, false, ample, 8192, 8192, ""},
		{"slow Ethernet", Config{Pool: large, Workers: 1}, rxe, true, ample, 3472, 3472, ""},
		{"slower Ethernet", Config{Pool: large, Workers: 1}, gigabit, true, ample, 1388, 1388, ""},
		{"few work requests", Config{Pool: large, Workers: 1}, edr, false, limits{1000, 2000, 0}, 8192, 1000, "the device's max_srq_wr"},
		{"few completions", Config{Pool: large, Workers: 1}, edr, false, limits{5000, 2000, 0}, 8192, 2000, "the device's max_cqe"},
		{"a device that does not say", Config{Pool: large, Workers: 1}, edr, false, limits{}, 8192, 8192, ""},
		{"more by configuration", Config{Pool: small, Workers: 2, Receives: 20000}, rxe, true, ample, 20000, 20000, ""},
		{"fewer by configuration", Config{Pool: large, Workers: 1, Receives: 100}, edr, false, ample, 100, 100, ""},
		{"rxe's completions", Config{Pool: large, Workers: 1, Receives: 32768}, edr, true, limits{1 << 20, 32767, 0}, 32768, 32767, "the device's max_cqe"},
	} {
		info := &PortInfo{Info: ibside.Info{Ethernet: c.ethernet}, Mbps: c.mbps}
		wanted, posted, bound := c.config.receives(info, c.device)
		if wanted != c.wanted || posted != c.posted || bound != c.bound {
			t.Errorf("%s: %d of %d by %q, want %d of %d by %q", c.name, posted, wanted, bound, c.posted, c.wanted, c.bound)
		}
	}
}
