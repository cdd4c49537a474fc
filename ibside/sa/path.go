// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"

	"causeway/ibside/ib"
)

// Path returns the path from the port to dgid, which may be an alias or a group: then the path's DLID is the MLID.
func (c *Client) Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error) {
	p, err := c.PortState()
	if err != nil {
		return ib.PathFields{}, fmt.Errorf("sa: path to %v: %w", dgid, err)
	}
	return c.PathWith(ctx, ib.PathResolve, ib.PathFields{DGID: dgid, SGID: p.GID, Reversible: true, NumbPath: 1})
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
