// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"

	"causeway/ibside/ib"
)

// serviceMask is what names a record, and what it says.
const (
	serviceKey  = ib.ServiceRecordID | ib.ServiceRecordGID | ib.ServiceRecordPKey
	serviceMask = serviceKey | ib.ServiceRecordLease | ib.ServiceRecordName | ib.ServiceRecordData
)

// Offer has the SA list a service of the port, until its lease ends; a record that is there already is replaced. A zero
// GID is the port's own.
func (c *Client) Offer(ctx context.Context, f ib.ServiceRecordFields) (ib.ServiceRecordFields, error) {
	return c.service(ctx, fmt.Sprintf("offer the service %v", f.ID), ib.MethodSet, serviceMask, f)
}

// Withdraw ends what Offer began.
func (c *Client) Withdraw(ctx context.Context, f ib.ServiceRecordFields) error {
	_, err := c.service(ctx, fmt.Sprintf("withdraw the service %v", f.ID), ib.MethodDelete, serviceKey, f)
	return err
}

// Services lists the records of a name.
func (c *Client) Services(ctx context.Context, name string) (all []ib.ServiceRecordFields, err error) {
	data := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(data, ib.ServiceRecordFields{Name: ib.ServiceNameOf(name)})
	list, err := c.records(ctx, fmt.Sprintf("list the services %q", name), request{
		attr: ib.AttrServiceRecord, mask: ib.ServiceRecordName, data: data,
	}, ib.ServiceRecordLen)
	for _, b := range list {
		r, _ := ib.AsServiceRecord(b)
		all = append(all, r.Fields())
	}
	return all, err
}

// service sends a request about one record.
func (c *Client) service(ctx context.Context, doing string, method uint8, mask uint64, f ib.ServiceRecordFields) (ib.ServiceRecordFields, error) {
	if f.GID.IsZero() {
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
	r, ok := ib.AsServiceRecord(data)
	if !ok {
		return f, fmt.Errorf("sa: %s: %w", doing, ErrMalformed)
	}
	return r.Fields(), nil
}
