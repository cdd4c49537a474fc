// SPDX-License-Identifier: Apache-2.0

// Package sight is how workers show packets to those who watch, in C: copies into rings that a watcher reads. Package
// lcore makes rings and reads them (lcore.Bench.Watch); nothing here is for anybody else.
package sight

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/../..
*/
import "C"
