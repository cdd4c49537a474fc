// SPDX-License-Identifier: Apache-2.0

//go:build !asan

package dpdk

// limitsAddressSpace: the tests may limit a process's address space.
const limitsAddressSpace = true
