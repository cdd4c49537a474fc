// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is a bit of capabilities(7); 0 is none that a port needs.
type capability int

const (
	capNetAdmin capability = 12
	capNetRaw   capability = 13
	capIPCLock  capability = 14
)

func (c capability) String() string {
	return map[capability]string{capNetAdmin: "CAP_NET_ADMIN", capNetRaw: "CAP_NET_RAW", capIPCLock: "CAP_IPC_LOCK"}[c]
}

// missing reports whether the process is without it. The PMDs do not tell that from other failures.
func (c capability) missing() bool {
	if c == 0 {
		return false
	}
	set, err := strconv.ParseUint(ownStatus("CapEff"), 16, 64)
	return err == nil && set>>c&1 == 0
}

// ownStatus returns a field of /proc/self/status (proc(5)); "" when it cannot be read.
func ownStatus(field string) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(status), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// lockableBytes is how much memory the process can lock besides what it has locked (mlock(2)).
func lockableBytes() uint64 {
	var limit unix.Rlimit
	if !capIPCLock.missing() || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil {
		return math.MaxUint64
	}
	locked, _ := strconv.ParseUint(strings.TrimSuffix(ownStatus("VmLck"), " kB"), 10, 64)
	return limit.Cur - min(limit.Cur, locked<<10)
}
