// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"unsafe"

	"causeway/ibside/verbs/verbstest"
)

// injectFailure puts the QP in the error state, as a device does.
func (q *queuePair) injectFailure() { verbstest.FailQP(unsafe.Pointer(q.c.qp)) }
