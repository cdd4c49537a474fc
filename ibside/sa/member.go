// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

// record sends a request for one record and returns the attribute of the answer.
func (c *Client) record(ctx context.Context, doing string, r request) ([]byte, error) {
	r.answer = ib.MethodGetResp
	if r.method == ib.MethodDelete {
		r.answer = ib.MethodDeleteResp
	}
	got, err := c.query(ctx, &r)
	if err != nil {
		return nil, fmt.Errorf("sa: %s: %w", doing, err)
	}
	if got.table != nil {
		return nil, fmt.Errorf("sa: %s: %w", doing, ErrMalformed)
	}
	return got.data, nil
}

// records queries all records that match, each n bytes long. None is no error.
func (c *Client) records(ctx context.Context, doing string, r request, n int) ([][]byte, error) {
	r.method, r.answer = ib.MethodGetTable, ib.MethodTableResp
	got, err := c.query(ctx, &r)
	if errors.Is(err, NoRecords) {
		return nil, nil
	}
	if err == nil {
		var all [][]byte
		if all, err = got.table.records(n); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("sa: %s: %w", doing, err)
}

// Join makes a port a member of a group with f.JoinState and returns the group's record, which has its MLID. The group
// must have f's Q_Key and P_Key, if it exists. Otherwise a full or send-only full member creates it with all of f; its
// MTU and rate are exactly f's, or the SA's choice when they are zero. A zero MGID lets the SA choose one. A zero
// PortGID is the port's own.
//
// One request joins or creates: OpenSM logs an error for a join of a group that does not exist. A group that exists
// with other parameters than f's is joined with a second request, which does not name them.
func (c *Client) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	const join = ib.MCMemberJoin | ib.MCMemberQKey | ib.MCMemberPKey
	if f.JoinState&(ib.JoinFull|ib.JoinSendOnlyFull) == 0 && !f.MGID.IsZero() {
		return c.JoinWith(ctx, join, f)
	}
	got, err := c.JoinWith(ctx, createMask(&f), f)
	if errors.Is(err, RequestInvalid) && !f.MGID.IsZero() {
		if joined, err := c.JoinWith(ctx, join, f); err == nil {
			return joined, nil
		}
	}
	return got, err
}

// createMask returns the components that create a group, and sets the selectors of f.
func createMask(f *ib.MCMemberFields) uint64 {
	mask := ib.MCMemberCreate | ib.MCMemberHopLimit
	if f.MTU != 0 {
		f.MTUSelector = ib.SelectExactly
		mask |= ib.MCMemberMTUSelector | ib.MCMemberMTU
	}
	if f.Rate != 0 {
		f.RateSelector = ib.SelectExactly
		mask |= ib.MCMemberRateSelector | ib.MCMemberRate
	}
	return mask
}

// JoinWith joins with exactly the components that mask names.
func (c *Client) JoinWith(ctx context.Context, mask uint64, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	return c.member(ctx, fmt.Sprintf("join %v", f.MGID), ib.MethodSet, mask, f)
}

// Leave removes join states of a port from a group. A zero portGID is the port's own.
func (c *Client) Leave(ctx context.Context, mgid, portGID ib.GID, joinState uint8) error {
	f := ib.MCMemberFields{MGID: mgid, PortGID: portGID, JoinState: joinState}
	_, err := c.member(ctx, fmt.Sprintf("leave %v", mgid), ib.MethodDelete, ib.MCMemberJoin, f)
	return err
}

// Groups returns all records of groups that match; with a mask of zero, all there are. The SA shows the members of a
// group, each in a record of its own, to a client that it trusts (Config.SMKey), to others one record a group.
func (c *Client) Groups(ctx context.Context, mask uint64, f ib.MCMemberFields) ([]ib.MCMemberFields, error) {
	data := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(data, f)
	found, err := c.records(ctx, "list groups", request{attr: ib.AttrMCMemberRecord, mask: mask, data: data}, ib.MCMemberRecordLen)
	if err != nil {
		return nil, err
	}
	var all []ib.MCMemberFields
	for _, b := range found {
		rec, _ := ib.AsMCMemberRecord(b)
		all = append(all, rec.Fields())
	}
	return all, nil
}

func (c *Client) member(ctx context.Context, doing string, method uint8, mask uint64, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	if mask&ib.MCMemberPortGID != 0 && f.PortGID.IsZero() {
		p, err := c.PortState()
		if err != nil {
			return ib.MCMemberFields{}, fmt.Errorf("sa: %s: %w", doing, err)
		}
		f.PortGID = p.GID
	}
	data := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(data, f)
	data, err := c.record(ctx, doing, request{method: method, attr: ib.AttrMCMemberRecord, mask: mask, data: data})
	if err != nil {
		return ib.MCMemberFields{}, err
	}
	rec, _ := ib.AsMCMemberRecord(data)
	got := rec.Fields()
	if method == ib.MethodSet && (!got.MLID.IsMulticast() || !f.MGID.IsZero() && got.MGID != f.MGID) {
		return ib.MCMemberFields{}, fmt.Errorf("sa: %s: the answer is about %v at LID %v: %w",
			doing, got.MGID, got.MLID, ErrMalformed)
	}
	return got, nil
}
