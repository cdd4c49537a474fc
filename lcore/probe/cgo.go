// SPDX-License-Identifier: Apache-2.0

// Package probe is what of the packet path is there to be looked at and tried: how long a packet takes (latency.h), and
// faults on purpose (inject.h). It is C alone; package lcore is its Go face, and has its tests.
package probe

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
*/
import "C"
