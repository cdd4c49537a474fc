// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// aliasTable is a copy of the port's GUID table at the SA.
type aliasTable struct {
	client    *Client
	registrar *Registrar
	bridges   *bridgeList
	patience  time.Duration // with another bridge of the fleet that has an alias, and should drop it

	mu    sync.Mutex
	read  bool
	guids []ib.GUID // by index; as long as the table
	ours  map[ib.GUID]int
	taken map[ib.GUID]time.Time // by other ports, since when
}

func newAliasTable(c *Client, r *Registrar, b *bridgeList) *aliasTable {
	const patience = 2 * time.Second
	return &aliasTable{client: c, registrar: r, bridges: b, patience: patience, ours: map[ib.GUID]int{}, taken: map[ib.GUID]time.Time{}}
}

// aliasBlocks bounds a table: its entries are counted in 8 bits.
const aliasBlocks = 256 / ib.GUIDsPerBlock

// SetAlias implements ibside.Aliaser. It takes an empty entry of the port's table, or the one that has the GUID
// already. It leaves the aliases of others alone, but for those that another bridge of the same fleet still has after a
// while: that one has died, as it drops what is not its own.
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
	_, err := a.registrar.SetAlias(ctx, index, guid)
	if errors.Is(err, ErrAliasTaken) && a.mayTake(guid) {
		if err := a.takeFromFellow(ctx, guid); err != nil {
			return err
		}
		_, err = a.registrar.SetAlias(ctx, index, guid)
	}
	if err != nil {
		a.read = false // another may have changed it
		return err
	}
	delete(a.taken, guid)
	a.guids[index], a.ours[guid] = guid, index
	return nil
}

// mayTake reports whether another port has had an alias for long enough.
func (a *aliasTable) mayTake(guid ib.GUID) bool {
	const forgotten = time.Hour
	now := time.Now()
	maps.DeleteFunc(a.taken, func(_ ib.GUID, since time.Time) bool { return now.Sub(since) > forgotten })
	since, before := a.taken[guid]
	if !before {
		a.taken[guid], since = now, now
	}
	return now.Sub(since) >= a.patience
}

// takeFromFellow deletes an alias of another bridge of the fleet. The subnet administrator lets anybody do that.
func (a *aliasTable) takeFromFellow(ctx context.Context, guid ib.GUID) error {
	fellows, err := a.bridges.fellows(ctx)
	if err != nil {
		return err
	}
	for _, lid := range fellows {
		table, err := readGUIDs(ctx, a.client, lid)
		if err != nil {
			return err
		}
		if index := slices.Index(table, guid); index > 0 {
			return a.client.deleteAliasOf(ctx, lid, index)
		}
	}
	return fmt.Errorf("sa: set alias %v: %w", guid, ErrAliasTaken)
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

// readGUIDs reads the table of the port with a LID, block by block, until the SA says that there are no more; 0 is the
// client's own port.
func readGUIDs(ctx context.Context, c *Client, lid ib.LID) (all []ib.GUID, err error) {
	for block := range aliasBlocks {
		guids, err := c.guidsOf(ctx, lid, block)
		if errors.As(err, new(Rejection)) && block > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, guids[:]...)
	}
	return all, nil
}

// load reads the port's own table.
func (a *aliasTable) load(ctx context.Context) error {
	if a.read {
		return nil
	}
	all, err := readGUIDs(ctx, a.client, 0)
	if err != nil {
		return err
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
