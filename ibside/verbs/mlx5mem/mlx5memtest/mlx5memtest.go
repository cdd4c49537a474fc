// SPDX-License-Identifier: Apache-2.0

// Package mlx5memtest steers the device of mlx5mem from Go's tests.
package mlx5memtest

/*
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#include "../mlx5mem.h"
*/
import "C"

import _ "causeway/ibside/verbs/mlx5mem" // the device

func init() {
	if !C.mlx5mem_begin() {
		panic("mlx5mem: its tree cannot be made")
	}
}

// Device is the name of the device; its port is 1.
const Device = "mlx5_0"

// Turn carries out all sends that have been rung for, and returns how many.
func Turn() int { return int(C.mlx5mem_turn(C.MLX5MEM_ALL)) }

// Faults returns the texts of the faults so far, one a line.
func Faults() string { return C.GoString(C.mlx5mem_faults()) }

// Counters are the device's (struct mlx5mem_counters).
type Counters struct{ Faults, Bells, Sent, Received, Dropped, Live uint64 }

// Count returns the device's counters.
func Count() Counters {
	c := C.mlx5mem_count()
	return Counters{uint64(c.faults), uint64(c.bells), uint64(c.sent), uint64(c.received), uint64(c.dropped), uint64(c.live)}
}
