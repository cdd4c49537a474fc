// SPDX-License-Identifier: Apache-2.0

// Package mirror copies packets into rings for captures and traces, in C: workers write, package lcore makes and reads
// the rings (lcore.Datapath.Mirror). Nothing else uses it.
package mirror

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#cgo portable CFLAGS: -DCAUSEWAY_PORTABLE
*/
import "C"
