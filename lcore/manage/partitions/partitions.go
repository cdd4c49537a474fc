// SPDX-License-Identifier: Apache-2.0

// Package partitions numbers the partitions that the bridge uses: table entries have no room for P_Keys. [ib] pkey is
// number 0. A number is its P_Key's as long as the bridge runs, because proxy QPs outlive the configuration that they
// were made for.
package partitions

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"causeway/ibside/ib"
	"causeway/tables"
)

// Partitions are the numbered P_Keys. All methods but PKey and Check belong to the loop's goroutine.
type Partitions struct {
	pkeys []ib.PKey // by number
	used  []bool    // by number: the configuration has it
	read  [tables.MaxPartitions]atomic.Uint32
}

// New makes Partitions with one, which is number 0.
func New(own ib.PKey) *Partitions {
	p := &Partitions{pkeys: []ib.PKey{own}, used: []bool{true}}
	p.read[0].Store(uint32(own))
	return p
}

// Check returns the error if there are not enough numbers for these P_Keys besides those that have had one. Any
// goroutine may call it.
func (p *Partitions) Check(pkeys []ib.PKey) error {
	var all []ib.PKey
	for i := range p.read {
		if k := ib.PKey(p.read[i].Load()); i == 0 || k != 0 {
			all = append(all, k)
		}
	}
	had := len(all)
	all = appendNew(all, pkeys)
	if len(all) <= tables.MaxPartitions {
		return nil
	}
	var more []string
	for _, k := range all[had:] {
		more = append(more, k.String())
	}
	what := "P_Key"
	if len(more) > 1 {
		what = "P_Keys"
	}
	return fmt.Errorf("manage: with %s %s the bridge would have used %d since it started, more than %d: restart it",
		what, strings.Join(more, ", "), len(all), tables.MaxPartitions)
}

// appendNew appends those P_Keys that are not there, each once.
func appendNew(all, pkeys []ib.PKey) []ib.PKey {
	for _, k := range pkeys {
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// Use makes these the P_Keys that are used, besides that of number 0. It fails, without effect, as Check does.
func (p *Partitions) Use(pkeys []ib.PKey) error {
	if err := p.Check(pkeys); err != nil {
		return err
	}
	all := appendNew(slices.Clone(p.pkeys), pkeys)
	p.pkeys, p.used = all, make([]bool, len(all))
	for i, k := range all {
		p.used[i] = i == 0 || slices.Contains(pkeys, k)
		p.read[i].Store(uint32(k))
	}
	return nil
}

// Number returns the number of a P_Key that is used, and 0 for any other.
func (p *Partitions) Number(k ib.PKey) uint8 { return uint8(max(0, slices.Index(p.pkeys, k))) }

// PKey returns the P_Key of a number; 0 when it has none. Any goroutine may call it.
func (p *Partitions) PKey(number uint8) ib.PKey {
	if int(number) >= len(p.read) {
		return 0
	}
	return ib.PKey(p.read[number].Load())
}

// Several reports whether more than one is used.
func (p *Partitions) Several() bool { return len(p.Used()) > 1 }

// Used lists the P_Keys that are used, that of number 0 first.
func (p *Partitions) Used() (all []ib.PKey) {
	for i, k := range p.pkeys {
		if p.used[i] {
			all = append(all, k)
		}
	}
	return all
}

// Matching returns the number of the used P_Key whose members a node with k may send to.
func (p *Partitions) Matching(k ib.PKey) (uint8, bool) {
	for i, own := range p.pkeys {
		if p.used[i] && own.Matches(k) {
			return uint8(i), true
		}
	}
	return 0, false
}

// Missing lists the used P_Keys that a port's table does not have.
func (p *Partitions) Missing(table []ib.PKey) (all []ib.PKey) {
	return slices.DeleteFunc(p.Used(), func(k ib.PKey) bool { return slices.Contains(table, k) })
}
