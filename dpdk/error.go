// SPDX-License-Identifier: Apache-2.0

package dpdk

// #cgo pkg-config: libdpdk
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror -Wno-unused-parameter
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #cgo LDFLAGS: -lrte_net_ring -lrte_net_bond -lrte_bus_vdev
// #cgo LDFLAGS: -Wl,-z,relro,-z,now
// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// errno turns what a C function answered, 0 or a negative errno, into an error. Some PMDs answer -1 for any
// failure, which reads as EPERM; the log says more then.
func errno(code C.int) error {
	if code >= 0 {
		return nil
	}
	return syscall.Errno(-code)
}

// portError names the port as the user wrote it.
func portError(name string, format string, args ...any) error {
	return fmt.Errorf("dpdk: port %q: %w", name, fmt.Errorf(format, args...))
}

// told is an errno and what DPDK logged about it, in one line.
type told struct {
	said string
	err  error
}

func (t told) Error() string {
	if errors.Is(t.err, syscall.EPERM) || strings.Contains(strings.ToLower(t.said), strings.ToLower(t.err.Error())) {
		return t.said
	}
	return t.said + ": " + t.err.Error()
}

func (t told) Unwrap() error { return t.err }

// why adds to an errno what DPDK logged since clearLog.
func why(err error) error {
	if said := firstLogged(logged()); said != "" {
		return told{said, err}
	}
	return err
}

// harmless reports whether a line of the log tells no fault: net_memif's, when there are no secondary processes, and
// net_tap's, in any Go process (see planTap).
func harmless(line string) bool {
	return strings.HasPrefix(line, "EAL: WARNING") || strings.Contains(line, "Failed to register mp action callback") ||
		strings.Contains(line, "All rt-signals are in use")
}

// firstLogged answers the first line of the log that tells a fault, without DPDK's component prefix: the later ones
// are its callers' complaints.
func firstLogged(log string) string {
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if line == "" || harmless(line) {
			continue
		}
		if _, rest, found := strings.Cut(line, ": "); found {
			line = strings.TrimPrefix(rest, "FATAL: ")
		}
		return strings.TrimRight(line, ". ")
	}
	return ""
}
