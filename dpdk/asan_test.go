// SPDX-License-Identifier: Apache-2.0

//go:build asan

package dpdk

// limitsAddressSpace: the address sanitizer itself dies of a limit.
const limitsAddressSpace = false
