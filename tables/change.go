// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"fmt"
	"net/netip"
	"syscall"

	"causeway/ibside/ib"
)

// changes is a list of entries to put on tables and keys to take off them, as one. Puts come first: they can
// fail, and are then taken back; deletes cannot.
type changes struct {
	list   []C.struct_table_change
	tables []string // their names, for errors
}

func (c *changes) put(table *C.struct_table, name string, e entry) {
	c.list = append(c.list, C.struct_table_change{table: table, entry: e, what: C.TABLE_PUT})
	c.tables = append(c.tables, name)
}

func (c *changes) delete(table *C.struct_table, k C.struct_table_key) {
	c.list = append(c.list, C.struct_table_change{table: table, entry: keyOnly(k), what: C.TABLE_DELETE})
	c.tables = append(c.tables, "")
}

// apply makes the changes, all or none. The error says which table is full; the caller says of what.
func (c *changes) apply() error {
	if len(c.list) == 0 {
		return nil
	}
	var failed C.uint
	if err := C.table_apply(&c.list[0], C.uint(len(c.list)), &failed); err != 0 {
		return fmt.Errorf("table %s: %w; call Reclaim after every worker has looped, or raise its Max",
			c.tables[failed], syscall.Errno(-err))
	}
	return nil
}

// checkUnicast returns a in the form used as key, or an error that says what is wrong with it.
func checkUnicast(a netip.Addr) (netip.Addr, error) {
	a = a.Unmap()
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return a, fmt.Errorf("ip %v is not a unicast address; give one, without zone", a)
	}
	return a, nil
}

// PlainUDP is the version of groups and proxy QPs that are not RoCE on Ethernet.
const PlainUDP = C.PLAIN_UDP

// PlainQPN is in place of the host's QPN in the proxy QP that sends all plain UDP of a host.
const PlainQPN = ib.QPN(C.PLAIN_QPN)

// checkPlain checks the version of what can be plain UDP.
func checkPlain(v uint8, plain bool) error {
	switch {
	case plain && v != PlainUDP:
		return fmt.Errorf("version %d is not that of plain UDP; use PlainUDP", v)
	case plain:
		return nil
	}
	return checkVersion(v)
}

func checkVersion(v uint8) error {
	if v != C.ROCE_V1 && v != C.ROCE_V2 {
		return fmt.Errorf("RoCE version %d is not known; use 1 or 2", v)
	}
	return nil
}

func checkVLAN(v uint16) error {
	if v > 4094 {
		return fmt.Errorf("VLAN %d is not possible; use 1 to 4094, or 0 for untagged", v)
	}
	return nil
}

// firstError returns the first that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
