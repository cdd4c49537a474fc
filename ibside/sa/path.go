// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"

	"causeway/ibside/ib"
)

// Path returns the path from the port to dgid, which may be an alias or a group: then the path's DLID is the MLID.
func (c *Client) Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error) {
	return c.pathIn(ctx, dgid, 0)
}

// pathIn is Path in a partition; with a P_Key of 0, in any.
func (c *Client) pathIn(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ib.PathFields, error) {
	p, err := c.PortState()
	if err != nil {
		return ib.PathFields{}, fmt.Errorf("sa: path to %v: %w", dgid, err)
	}
	f, mask := ib.PathFields{DGID: dgid, SGID: p.GID, PKey: pkey, Reversible: true, NumbPath: 1}, ib.PathResolve
	if pkey != 0 {
		mask |= ib.PathPKey
	}
	return c.PathWith(ctx, mask, f)
}

// LMC returns how many LIDs the port with a LID has: 1<<LMC.
func (c *Client) LMC(ctx context.Context, lid ib.LID) (uint8, error) {
	data := make([]byte, ib.PortInfoRecordLen)
	ib.PutPortInfoRecord(data, ib.PortInfoFields{LID: lid})
	data, err := c.record(ctx, fmt.Sprintf("port of LID %v", lid),
		request{method: ib.MethodGet, attr: ib.AttrPortInfoRecord, mask: ib.PortInfoLID, data: data})
	if err != nil {
		return 0, err
	}
	rec, _ := ib.AsPortInfoRecord(data)
	if base := lid.Base(rec.LMC()); base == 0 || rec.BaseLID().Base(rec.LMC()) != base {
		return 0, fmt.Errorf("sa: port of LID %v: the answer is about LID %v: %w", lid, rec.BaseLID(), ErrMalformed)
	}
	return rec.LMC(), nil
}

// Holder returns the GID of the port that has a LID: its own, where virtual functions or aliases share the LID.
func (c *Client) Holder(ctx context.Context, lid ib.LID) (ib.GID, error) {
	p, err := c.PortState()
	if err != nil {
		return ib.GID{}, fmt.Errorf("sa: port of LID %v: %w", lid, err)
	}
	const mask = ib.PathSGID | ib.PathDLID | ib.PathReversible | ib.PathNumbPath
	f, err := c.PathWith(ctx, mask, ib.PathFields{SGID: p.GID, DLID: lid, Reversible: true, NumbPath: 1})
	if err == nil && (f.DLID != lid || f.DGID.IsZero() || f.DGID.IsMulticast()) {
		err = fmt.Errorf("sa: port of LID %v: the answer is about LID %v, GID %v: %w", lid, f.DLID, f.DGID, ErrMalformed)
	}
	return f.DGID, err
}

// PathWith asks for the one path that matches the components which mask names.
func (c *Client) PathWith(ctx context.Context, mask uint64, f ib.PathFields) (ib.PathFields, error) {
	data := make([]byte, ib.PathRecordLen)
	ib.PutPathRecord(data, f)
	data, err := c.record(ctx, pathWords(f), request{method: ib.MethodGet, attr: ib.AttrPathRecord, mask: mask, data: data})
	if err != nil {
		return ib.PathFields{}, err
	}
	rec, _ := ib.AsPathRecord(data)
	return rec.Fields(), nil
}

// pathWords says in errors which path was asked for.
func pathWords(f ib.PathFields) string {
	if f.DGID.IsZero() {
		return fmt.Sprintf("path to LID %v", f.DLID)
	}
	return fmt.Sprintf("path to %v", f.DGID)
}
