// SPDX-License-Identifier: Apache-2.0

package pgm

/*
#include "pgm.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

var (
	countNames     = texts(C.pgm_count_symbol[:])
	countSentences = texts(C.pgm_count_sentence[:])
	faultNames     = texts(C.pgm_fault_symbol[:])
)

// texts copies C's strings.
func texts(c []*C.char) []string {
	out := make([]string, len(c))
	for i, s := range c {
		out[i] = C.GoString(s)
	}
	return out
}

// load reads a word that a worker writes.
func load(p *C.uint64_t) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(p))) }
