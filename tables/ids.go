// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"syscall"
)

// ids gives out numbers below max. A number that was given back is retired: it is given out again when every
// reader has been quiescent since, because readers count under it.
type ids struct {
	what, limit string // for errors: "host", "MaxHosts"
	max         uint32
	readers     readers
	next        uint32 // numbers from here on were never given out
	free        []uint32
	retired     []retiredID // oldest first
}

// readers reports when all readers have been quiescent since a token was taken.
type readers interface {
	token() uint64
	passed(token uint64) bool
}

type retiredID struct {
	token uint64
	id    uint32
}

func (p *ids) take() (uint32, error) {
	if len(p.free) == 0 && p.next == p.max {
		p.reclaim()
	}
	if n := len(p.free); n > 0 {
		id := p.free[n-1]
		p.free = p.free[:n-1]
		return id, nil
	}
	if p.next < p.max {
		p.next++
		return p.next - 1, nil
	}
	return 0, fmt.Errorf("all %d %s ids are taken (%d of them wait for readers): %w; raise %s, or delete a %s",
		p.max, p.what, len(p.retired), syscall.ENOSPC, p.limit, p.what)
}

// retire takes an id back, when no table has an entry with it any more.
func (p *ids) retire(id uint32) {
	p.retired = append(p.retired, retiredID{p.readers.token(), id})
}

func (p *ids) reclaim() {
	n := 0
	for n < len(p.retired) && p.readers.passed(p.retired[n].token) {
		p.free = append(p.free, p.retired[n].id)
		n++
	}
	p.retired = p.retired[:copy(p.retired, p.retired[n:])]
}
