// SPDX-License-Identifier: Apache-2.0

// Package dpdktest gives dpdk's tests what needs C, which a _test.go file cannot have. It does not import dpdk, whose
// tests import it; a program that has dpdk has the C that it calls.
package dpdktest

// #cgo pkg-config: libdpdk
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror -Wno-unused-parameter
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include <stdlib.h>
// #include <rte_ethdev.h>
// #include <rte_log.h>
// #include "dpdktest.h"
// static void log_line(const char *text) { rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "%s", text); }
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// LogLine logs as the EAL would, any number of lines.
func LogLine(text string) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.log_line(c)
}

// Ports is the number of devices that DPDK has.
func Ports() int { return int(C.rte_eth_dev_count_avail()) }

// ShowFlow writes a struct dpdk_flow_rule as rte_flow gets it.
func ShowFlow(rule unsafe.Pointer) (string, error) {
	var text [1024]C.char
	err := asError(C.dpdktest_flow_show((*C.struct_dpdk_flow_rule)(rule), &text[0], C.uint(len(text))))
	return C.GoString(&text[0]), err
}

// ValidateFlow asks a port's PMD whether it would take a struct dpdk_flow_rule. Some say yes and then do not.
func ValidateFlow(port int, rule unsafe.Pointer) error {
	return asError(C.dpdktest_flow_validate(C.uint16_t(port), (*C.struct_dpdk_flow_rule)(rule)))
}

func asError(code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("rte_flow: %w", syscall.Errno(-code))
}
