// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"slices"

	"causeway/tables"
)

// A filter is which groups the Ethernet port receives.
type filter struct {
	receive func(groups []tables.GroupAddr) error // nil: the port receives all
	groups  []tables.GroupAddr                    // as last set at the port
	told    bool
	stale   bool // they may differ from those that are wanted
	failed  bool // setting them at the port failed
}

// retry sets the groups at the port again when that has failed.
func (f *filter) retry() { f.stale = f.stale || f.failed }

// Refilter sets the groups at the port again, even when they are the same.
func (g *Groups) Refilter() { g.filter.stale, g.filter.told = true, false }

// UpdateFilter makes the Ethernet port receive the groups that are open to IB, if they have changed.
func (g *Groups) UpdateFilter() {
	f := &g.filter
	if !f.stale || f.receive == nil {
		return
	}
	f.stale = false
	var groups []tables.GroupAddr
	for _, m := range g.groups {
		if m.ToIB && !m.gone {
			groups = append(groups, m.Addr())
		}
	}
	for _, x := range g.guests {
		if x.ToIB {
			groups = append(groups, x.Addr())
		}
	}
	slices.SortFunc(groups, tables.GroupAddr.Compare)
	if f.told && slices.Equal(groups, f.groups) {
		return
	}
	if err := f.receive(groups); err != nil {
		f.failed = true // Tick tries again
		if g.log.Allow("groups_not_received", 1) {
			g.log.Error("groups_not_received", "groups", len(groups), "error", err)
		}
		return
	}
	f.groups, f.told, f.failed = groups, true, false
}
