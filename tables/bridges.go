// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"fmt"

	"causeway/ibside/ib"
)

// maxBridges is how many other bridges the tables have room for.
const maxBridges = C.TABLES_BRIDGES

// Bridge is what another bridge's port goes by. What comes from there has crossed a bridge.
type Bridge struct {
	GID ib.GID
	LID ib.LID // the first of 1<<LMC; 0: not known
	LMC uint8
}

func (b *Bridge) lids() []ib.LID { return (&Node{LID: b.LID, LMC: b.LMC}).lids() }

// bridges are the other bridges, by GID and by LID.
type bridges struct {
	gids map[ib.GID]struct{}
	lids map[ib.LID]struct{}
}

func (b *bridges) has(gid ib.GID) bool { _, ok := b.gids[gid]; return ok }

// SetBridges says which other bridges there are from now on. A node with the GID of one is that bridge, until it is put
// again after the bridge has gone. On an error nothing has changed.
func (t *Nodes) SetBridges(all []Bridge) error {
	if len(all) > maxBridges {
		return fmt.Errorf("tables: %d other bridges; there can be %d on a subnet", len(all), maxBridges)
	}
	now := bridges{gids: map[ib.GID]struct{}{}, lids: map[ib.LID]struct{}{}}
	var c changes
	for _, b := range all {
		now.gids[b.GID] = struct{}{}
		for _, lid := range b.lids() {
			now.lids[lid] = struct{}{}
		}
		if n := t.gids[b.GID]; n != nil {
			marked := n.Node
			marked.Bridge = true
			for _, ip := range marked.ips() {
				c.put(&t.c.nodes, "nodes", nodeEntry(ip, &marked, n.id))
			}
			c.put(&t.c.sources, "sources", sourceEntry(gidKey(b.GID), &marked, n.id))
		} else {
			c.put(&t.c.sources, "sources", bridgeEntry(gidKey(b.GID)))
		}
	}
	for gid := range t.bridges.gids {
		if !now.has(gid) && t.gids[gid] == nil {
			c.delete(&t.c.sources, gidKey(gid))
		}
	}
	if err := c.apply(); err != nil {
		return fmt.Errorf("tables: other bridges: %w", err)
	}
	for gid := range now.gids {
		if n := t.gids[gid]; n != nil {
			n.Bridge = true
		}
	}
	left := keysOf(t.bridges.lids)
	t.bridges = now
	t.settleLIDs(append(left, keysOf(now.lids)...))
	return nil
}

// settleGID makes a GID that no node has any more a bridge's, if it is one.
func (t *Nodes) settleGID(gid ib.GID) {
	if t.bridges.has(gid) && t.gids[gid] == nil {
		var c changes
		c.put(&t.c.sources, "sources", bridgeEntry(gidKey(gid)))
		_ = c.apply() // in the place of the node's
	}
}
