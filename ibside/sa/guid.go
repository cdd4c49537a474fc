// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

// ErrAliasTaken means that the SA rejected an alias GUID without an error status, by leaving its entry empty: another
// port has the alias.
var ErrAliasTaken = errors.New("the SA left the entry empty: another port has this GUID")

// SetAlias gives the port another GUID: the SA then resolves the GID of subnet prefix and alias to the port's LID. The
// index counts the entries of the port's GUID table; 0 is the port's own GUID and is an error. A zero GUID lets the SA
// choose one. SetAlias returns the GUID that the SA has set.
//
// The SA's confirmation does not mean that the port's hardware has the alias, too.
func (c *Client) SetAlias(ctx context.Context, index int, guid ib.GUID) (ib.GUID, error) {
	doing := fmt.Sprintf("set alias %v at %d", guid, index)
	block, entry := index/ib.GUIDsPerBlock, index%ib.GUIDsPerBlock
	f := ib.GUIDInfoFields{Block: uint8(block)}
	f.GUIDs[entry] = guid
	got, err := c.guidInfo(ctx, doing, 0, ib.MethodSet, index, ib.GUIDInfoGUID0<<entry, f)
	if err == nil && (got.GUIDs[entry] == 0 || guid != 0 && got.GUIDs[entry] != guid) {
		err = fmt.Errorf("sa: %s: %w", doing, ErrAliasTaken)
	}
	if err != nil {
		return 0, err
	}
	return got.GUIDs[entry], nil
}

// DeleteAlias removes an alias from the port. The SA denies that as long as the alias is a member of a group.
func (c *Client) DeleteAlias(ctx context.Context, index int) error {
	return c.deleteAliasOf(ctx, 0, index)
}

// deleteAliasOf does so for the port with a LID; 0 is the client's own.
func (c *Client) deleteAliasOf(ctx context.Context, lid ib.LID, index int) error {
	_, err := c.guidInfo(ctx, fmt.Sprintf("delete alias %d", index), lid, ib.MethodDelete, index,
		ib.GUIDInfoGUID0<<(index%ib.GUIDsPerBlock), ib.GUIDInfoFields{})
	return err
}

// GUIDs returns one block of the port's GUID table at the SA.
func (c *Client) GUIDs(ctx context.Context, block int) ([ib.GUIDsPerBlock]ib.GUID, error) {
	return c.guidsOf(ctx, 0, block)
}

func (c *Client) guidsOf(ctx context.Context, lid ib.LID, block int) ([ib.GUIDsPerBlock]ib.GUID, error) {
	got, err := c.guidInfo(ctx, fmt.Sprintf("get block %d of GUIDs", block), lid, ib.MethodGet, block*ib.GUIDsPerBlock, 0, ib.GUIDInfoFields{})
	return got.GUIDs, err
}

// guidInfo sends a request for the block of a port's GUID table that contains an index.
func (c *Client) guidInfo(ctx context.Context, doing string, lid ib.LID, method uint8, index int, mask uint64, f ib.GUIDInfoFields) (ib.GUIDInfoFields, error) {
	if index < 0 || index >= 256*ib.GUIDsPerBlock {
		return f, fmt.Errorf("sa: %s: a GUID table has at most %d entries", doing, 256*ib.GUIDsPerBlock)
	}
	p, err := c.PortState()
	if err != nil {
		return f, fmt.Errorf("sa: %s: %w", doing, err)
	}
	f.LID, f.Block = cmp.Or(lid, p.LID), uint8(index/ib.GUIDsPerBlock)
	data := make([]byte, ib.GUIDInfoRecordLen)
	ib.PutGUIDInfoRecord(data, f)
	data, err = c.record(ctx, doing, request{
		method: method, attr: ib.AttrGUIDInfoRecord, mask: mask | ib.GUIDInfoLID | ib.GUIDInfoBlock, data: data,
	})
	if err != nil {
		return f, err
	}
	rec, _ := ib.AsGUIDInfoRecord(data)
	return rec.Fields(), nil
}
