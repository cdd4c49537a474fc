// SPDX-License-Identifier: Apache-2.0

// Package verbstest gives verbs' tests what needs C, which a _test.go file cannot have.
package verbstest

// #cgo pkg-config: libibverbs
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include <infiniband/verbs.h>
// static void fail_qp(struct ibv_qp *qp) { ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE); }
import "C"

import "unsafe"

// FailQP puts a struct ibv_qp in the error state, as a device does.
func FailQP(qp unsafe.Pointer) { C.fail_qp((*C.struct_ibv_qp)(qp)) }
