// SPDX-License-Identifier: Apache-2.0

// Package mlx5mem is a ConnectX made of memory: the kernel and the device under the installed, unmodified libibverbs
// and libmlx5, for tests and benchmarks (mlx5mem.h). A program that imports this package has it after mlx5mem_begin. It
// must not be part of bin/causeway, because it takes the place of system calls.
package mlx5mem

// #cgo pkg-config: libibverbs
// #cgo LDFLAGS: -lmlx5
// #cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
import "C"
