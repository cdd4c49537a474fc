// SPDX-License-Identifier: Apache-2.0

package sidr

import "net/netip"

// turns share the port between hosts: each has atPortByHost requests there, and its others wait in order.
type turns map[netip.Addr]*turn

type turn struct {
	atPort  int
	waiting []request
}

// take reports whether the port may have a request now; if not, pass returns it later.
func (t turns) take(r *request) bool {
	from := r.packet.SrcIP
	of := t[from]
	if of == nil {
		of = &turn{}
		t[from] = of
	}
	if of.atPort == atPortByHost {
		of.waiting = append(of.waiting, *r)
		return false
	}
	of.atPort++
	return true
}

// pass ends the turn of a host's request. It returns the one whose turn it is then, if one waits.
func (t turns) pass(from netip.Addr) (next request, waits bool) {
	of := t[from]
	if len(of.waiting) == 0 {
		if of.atPort--; of.atPort == 0 {
			delete(t, from)
		}
		return request{}, false
	}
	next, of.waiting = of.waiting[0], of.waiting[1:]
	return next, true
}
