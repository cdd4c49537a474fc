// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"os"
	"strconv"
	"strings"
)

// capability is a bit of capabilities(7); 0 is none that a port needs.
type capability int

const (
	capNetAdmin capability = 12
	capNetRaw   capability = 13
)

func (c capability) String() string {
	return map[capability]string{capNetAdmin: "CAP_NET_ADMIN", capNetRaw: "CAP_NET_RAW"}[c]
}

// missing reports whether the process is without it. The PMDs do not tell that from other failures.
func (c capability) missing() bool {
	if c == 0 {
		return false
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:\t")
	digits, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(digits, 16, 64)
	return err == nil && set>>c&1 == 0
}
