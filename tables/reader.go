// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import "fmt"

// Reader is a registered reader in Go: nothing retired is used again before it is quiescent. A worker does the
// same in C, with a number of its own.
type Reader struct {
	t *Tables
	n C.uint
}

// Reader registers reader number n, below MaxReaders.
func (t *Tables) Reader(n int) (*Reader, error) {
	if n < 0 || C.tables_reader_open(t.c, C.uint(n)) != 0 {
		return nil, fmt.Errorf("tables: reader %d: no such number; use 0 to %d, or raise MaxReaders", n, t.c.max_readers-1)
	}
	return &Reader{t, C.uint(n)}, nil
}

// Close ends the registration.
func (r *Reader) Close() { C.tables_reader_close(r.t.c, r.n) }
