// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// timerYields lowers the priority of pktgen's timer: a thread that reads the clock without a pause, on the CPU of
// display and script. It would take half of that CPU from whoever shares it.
func timerYields(pid int) {
	const lowest = 19
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range dirs {
		name, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may have ended
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && tid != pid && !strings.HasPrefix(string(name), "rte") && !strings.HasPrefix(string(name), "eal") {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, lowest) // it may have ended
		}
	}
}
