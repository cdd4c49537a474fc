// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import "errors"

// A View is the tables for a worker that must change nothing: it marks no entry as used, and no node as heard. Whoever
// uses it must be a Reader of the tables as long.
type View struct{ c *C.struct_tables }

// View returns a view.
func (t *Tables) View() (*View, error) {
	c := C.tables_view_new(t.c)
	if c == nil {
		return nil, errors.New("tables: no memory for a view")
	}
	return &View{c}, nil
}

// Close frees the view.
func (v *View) Close() { C.tables_view_free(v.c) }
