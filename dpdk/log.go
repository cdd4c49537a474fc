// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

// logSize is what the C side keeps of DPDK's log, and the zero byte.
const logSize = 8192 + 1

// logged answers what DPDK has logged since clearLog.
func logged() string {
	var buf [logSize]C.char
	C.dpdk_log_copy(&buf[0], logSize)
	return C.GoString(&buf[0])
}

// clearLog drops what DPDK has logged, so that what comes next belongs to the next call.
func clearLog() { C.dpdk_log_clear() }
