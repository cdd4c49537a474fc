// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"

	"causeway/ibside/ib"
)

// SetService offers a service, or renews its lease and data. A zero GID is the port's own, a zero lease one that does
// not end.
func (c *Client) SetService(ctx context.Context, f ib.ServiceFields) (ib.ServiceFields, error) {
	if f.LeaseSeconds == 0 {
		f.LeaseSeconds = ib.ServiceLeaseForever
	}
	mask := ib.ServiceRecordWhich | ib.ServiceRecordLease | ib.ServiceRecordKey | ib.ServiceRecordName | ib.ServiceRecordData
	return c.service(ctx, fmt.Sprintf("offer service %v", f.ID), ib.MethodSet, mask, f)
}

// DeleteService ends the offer with f's ID, GID, P_Key and key. A zero GID is the port's own.
func (c *Client) DeleteService(ctx context.Context, f ib.ServiceFields) error {
	_, err := c.service(ctx, fmt.Sprintf("withdraw service %v", f.ID), ib.MethodDelete, ib.ServiceRecordWhich|ib.ServiceRecordKey, f)
	return err
}

// Service returns the one offer that matches the components which mask names.
func (c *Client) Service(ctx context.Context, mask uint64, f ib.ServiceFields) (ib.ServiceFields, error) {
	return c.service(ctx, fmt.Sprintf("look up service %v", f.ID), ib.MethodGet, mask, f)
}

// Services returns all offers that match the components which mask names.
func (c *Client) Services(ctx context.Context, mask uint64, f ib.ServiceFields) ([]ib.ServiceFields, error) {
	data := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(data, f)
	found, err := c.records(ctx, "list services", request{attr: ib.AttrServiceRecord, mask: mask, data: data}, ib.ServiceRecordLen)
	if err != nil {
		return nil, err
	}
	var all []ib.ServiceFields
	for _, b := range found {
		rec, _ := ib.AsServiceRecord(b)
		all = append(all, rec.Fields())
	}
	return all, nil
}

func (c *Client) service(ctx context.Context, doing string, method uint8, mask uint64, f ib.ServiceFields) (ib.ServiceFields, error) {
	if mask&ib.ServiceRecordGID != 0 && f.GID.IsZero() {
		p, err := c.PortState()
		if err != nil {
			return f, fmt.Errorf("sa: %s: %w", doing, err)
		}
		f.GID = p.GID
	}
	data := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(data, f)
	data, err := c.record(ctx, doing, request{method: method, attr: ib.AttrServiceRecord, mask: mask, data: data})
	if err != nil {
		return f, err
	}
	rec, _ := ib.AsServiceRecord(data)
	return rec.Fields(), nil
}
