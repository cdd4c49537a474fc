// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"fmt"
	"slices"

	"causeway/ibside/ib"
)

// maxOwnGIDs is how many GIDs of the bridge's own port the tables have room for: as many as verbs can send from.
const maxOwnGIDs = 256

// Own is what the bridge's own IB port goes by. A message from there is an echo of what the bridge has sent. Another
// port may share its LIDs (a virtual function): without a GRH, messages from there are taken for the bridge's.
type Own struct {
	LID  ib.LID // the first of 1<<LMC; 0: none
	LMC  uint8
	GIDs []ib.GID // each once
}

func (o *Own) keys() (keys []C.struct_table_key) {
	for _, g := range o.GIDs {
		keys = append(keys, gidKey(g))
	}
	for _, lid := range o.lids() {
		keys = append(keys, numberKey(uint64(lid)))
	}
	return keys
}

func (o *Own) lids() []ib.LID { return (&Node{LID: o.LID, LMC: o.LMC}).lids() }

func (o *Own) has(lid ib.LID) bool {
	return lid != 0 && o.LID != 0 && lid.Base(o.LMC) == o.LID.Base(o.LMC)
}

// SetOwn says what the bridge's own port goes by from now on. It fails, and changes nothing, when that is a node's.
func (t *Nodes) SetOwn(o Own) error {
	if len(o.GIDs) > maxOwnGIDs {
		return fmt.Errorf("tables: %d GIDs of the bridge's own port; give at most %d", len(o.GIDs), maxOwnGIDs)
	}
	if o.LMC > ib.MaxLMC {
		return fmt.Errorf("tables: lmc %d of the bridge's own port is not possible; it is 0 to %d", o.LMC, ib.MaxLMC)
	}
	for _, g := range o.GIDs {
		if n := t.gids[g]; n != nil {
			return fmt.Errorf("tables: gid %v is the bridge's own port's, and the node's of %v; correct that node", g, n.ips())
		}
	}
	var c changes
	kept := o.keys()
	for _, k := range kept {
		c.put(&t.c.sources, "sources", ownEntry(k))
	}
	for _, k := range t.own.keys() {
		if !slices.Contains(kept, k) {
			c.delete(&t.c.sources, k)
		}
	}
	if err := c.apply(); err != nil {
		return fmt.Errorf("tables: the bridge's own port: %w", err)
	}
	left := t.own.lids()
	t.own = Own{o.LID, o.LMC, slices.Clone(o.GIDs)}
	t.settleLIDs(left) // they may be nodes' now
	return nil
}

// LookupOwn reads the table sources: whether a GID is the bridge's own port's.
func (t *Nodes) LookupOwn(gid ib.GID) bool { return t.lookupOwn(gidKey(gid)) }

// LookupOwnLID is LookupOwn for a LID.
func (t *Nodes) LookupOwnLID(lid ib.LID) bool { return t.lookupOwn(numberKey(uint64(lid))) }

func (t *Nodes) lookupOwn(k C.struct_table_key) bool {
	e, ok := look(&t.c.sources, k)
	return ok && as[C.struct_source_entry](&e).flags&C.NODE_OWN != 0
}
