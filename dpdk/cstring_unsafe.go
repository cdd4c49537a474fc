// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include <stdlib.h>
// #include "dpdk.h"
import "C"

import "unsafe"

// withCString calls f with a C copy of s, which lives until f returns.
func withCString(s string, f func(*C.char) C.int) error {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	return errno(f(c))
}

// withCStrings is withCString for several.
func withCStrings(all []string, f func([]*C.char) C.int) error {
	var cs []*C.char
	for _, s := range all {
		c := C.CString(s)
		defer C.free(unsafe.Pointer(c))
		cs = append(cs, c)
	}
	return errno(f(cs))
}
