// SPDX-License-Identifier: Apache-2.0

package groups

import "causeway/ibside/ib"

// Owners says which of several Groups has an MGID at the port: one joins it when the other has left it. The zero Owners
// is ready for use.
type Owners struct {
	of      map[ib.GID]*membership
	waiting map[*membership]func()
}

// take reports whether a group may be joined. If not, next is called when that may have changed.
func (o *Owners) take(m *membership, next func()) bool {
	if o.of == nil {
		o.of, o.waiting = map[ib.GID]*membership{}, map[*membership]func(){}
	}
	if by := o.of[m.MGID]; by != nil && by != m {
		o.waiting[m] = next
		return false
	}
	o.of[m.MGID] = m
	return true
}

// isTaken reports whether another than m has an MGID, or waits for it; m is the own one, if there is one.
func (o *Owners) isTaken(mgid ib.GID, m *membership) bool {
	if by := o.of[mgid]; by != nil && by != m {
		return true
	}
	for other := range o.waiting {
		if other != m && other.MGID == mgid {
			return true
		}
	}
	return false
}

// release notes that a group is left.
func (o *Owners) release(m *membership) {
	delete(o.waiting, m)
	if o.of[m.MGID] != m {
		return
	}
	delete(o.of, m.MGID)
	for other, next := range o.waiting {
		if other.MGID == m.MGID {
			delete(o.waiting, other)
			next()
		}
	}
}
