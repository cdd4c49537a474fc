// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/lcore/manage"
)

// aliasTable is the port's GUID table as the SA knows it.
type aliasTable struct {
	mu    sync.Mutex
	read  bool
	guids []ib.GUID // by index; as long as the table is
	ours  map[ib.GUID]int
}

// aliasBlocks bounds a table: its entries are counted in 8 bits.
const aliasBlocks = 256 / ib.GUIDsPerBlock

// SetAlias implements manage.Aliaser. It takes an empty entry of the port's table, or the one that already has the GUID; what
// others have put there stays.
func (s *subnet) SetAlias(ctx context.Context, guid ib.GUID) error {
	a := &s.aliases
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.readAliases(ctx); err != nil {
		return err
	}
	index, ok := a.place(guid)
	if !ok {
		return fmt.Errorf("house: %d entries: %w", len(a.guids), manage.ErrNoAlias)
	}
	if _, err := s.keep.SetAlias(ctx, index, guid); err != nil {
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

// readAliases reads the table, block by block, until the SA says that there are no more.
func (s *subnet) readAliases(ctx context.Context) error {
	a := &s.aliases
	if a.read {
		return nil
	}
	var all []ib.GUID
	for block := range aliasBlocks {
		guids, err := s.client.GUIDs(ctx, block)
		if errors.As(err, new(sa.Refusal)) && block > 0 {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, guids[:]...)
	}
	if a.ours == nil {
		a.ours = map[ib.GUID]int{}
	}
	for guid, index := range a.ours { // an SM that starts anew may not have them yet
		if index < len(all) {
			all[index] = guid
		}
	}
	a.guids, a.read = all, true
	return nil
}

// DropAlias implements manage.Aliaser.
func (s *subnet) DropAlias(ctx context.Context, guid ib.GUID) error {
	a := &s.aliases
	a.mu.Lock()
	defer a.mu.Unlock()
	index, ok := a.ours[guid]
	if !ok {
		return nil
	}
	delete(a.ours, guid)
	a.guids[index] = 0
	return s.keep.DeleteAlias(ctx, index)
}
