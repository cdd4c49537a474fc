// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// aliasTable is a copy of the port's GUID table at the SA.
type aliasTable struct {
	client    *Client
	registrar *Registrar

	mu    sync.Mutex
	read  bool
	guids []ib.GUID // by index; as long as the table
	ours  map[ib.GUID]int
}

// aliasBlocks bounds a table: its entries are counted in 8 bits.
const aliasBlocks = 256 / ib.GUIDsPerBlock

// SetAlias implements ibside.Aliaser. It takes an empty entry of the port's table, or the one that has the GUID
// already; it leaves the aliases of others alone.
func (a *aliasTable) SetAlias(ctx context.Context, guid ib.GUID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(ctx); err != nil {
		return err
	}
	index, ok := a.place(guid)
	if !ok {
		return fmt.Errorf("sa: %d entries: %w", len(a.guids), ibside.ErrNoAlias)
	}
	if _, err := a.registrar.SetAlias(ctx, index, guid); err != nil {
		a.read = false // another may have changed it
		return err
	}
	a.guids[index], a.ours[guid] = guid, index
	return nil
}

// place finds an entry for a GUID. The first is the port's own.
func (a *aliasTable) place(guid ib.GUID) (int, bool) {
	free := 0
	for i := len(a.guids) - 1; i > 0; i-- {
		switch a.guids[i] {
		case guid:
			return i, true
		case 0:
			free = i
		}
	}
	return free, free != 0
}

// load reads the table, block by block, until the SA says that there are no more.
func (a *aliasTable) load(ctx context.Context) error {
	if a.read {
		return nil
	}
	var all []ib.GUID
	for block := range aliasBlocks {
		guids, err := a.client.GUIDs(ctx, block)
		if errors.As(err, new(Rejection)) && block > 0 {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, guids[:]...)
	}
	for guid, index := range a.ours { // an SM that has restarted may not have them yet
		if index < len(all) {
			all[index] = guid
		}
	}
	a.guids, a.read = all, true
	return nil
}

// DropAlias implements ibside.Aliaser.
func (a *aliasTable) DropAlias(ctx context.Context, guid ib.GUID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	index, ok := a.ours[guid]
	if !ok {
		return nil
	}
	delete(a.ours, guid)
	a.guids[index] = 0
	return a.registrar.DeleteAlias(ctx, index)
}
