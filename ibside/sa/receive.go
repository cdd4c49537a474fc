// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

// receive handles received MADs until the transport ends.
func (c *Client) receive() {
	defer close(c.stopped)
	mad := make([]byte, ib.MADLen)
	for {
		from, sl, err := c.transport.ReceiveMAD(mad)
		var lost *LostError
		switch {
		case errors.As(err, &lost):
			c.lost(lost)
		case err != nil:
			c.cause = fmt.Errorf("%w: %w", ErrClosed, err)
			return
		default:
			c.received(from, sl, mad)
		}
	}
}

// lost ends a try that cannot get an answer.
func (c *Client) lost(lost *LostError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Received++
	c.stats.Lost++
	if t := c.tries[uint32(lost.TID)]; t != nil {
		t.give(answer{err: lost.Err})
	}
}

// give passes an answer to its query. It never blocks: a query has room for an answer to each try, and takes the first.
func (t *try) give(a answer) {
	select {
	case t.answers <- a:
	default:
	}
}

// received takes one MAD, ib.MADLen bytes, which may be overwritten with its answer.
func (c *Client) received(from ib.LID, sl ib.SL, mad []byte) {
	c.count(func(s *Stats) { s.Received++ })
	m, _ := ib.AsMAD(mad)
	switch {
	case !m.IsSA():
		c.count(func(s *Stats) { s.Ignored++ })
	case m.IsResponse():
		c.answered(from, sl, mad)
	case m.Method() == ib.MethodReport && m.AttrID() == ib.AttrNotice:
		c.reported(from, sl, mad)
	default:
		c.count(func(s *Stats) { s.Ignored++ })
	}
}

// answered passes an answer to the query that waits for it.
func (c *Client) answered(from ib.LID, sl ib.SL, mad []byte) {
	m, _ := ib.AsMAD(mad)
	c.mu.Lock()
	t := c.tries[uint32(m.TID())]
	if t == nil || m.AttrID() != t.attr || m.Method() != t.answer || from != t.sm {
		c.stats.Late++
		c.mu.Unlock()
		if t == nil {
			acknowledge(c, from, sl, mad)
		}
		return
	}
	c.mu.Unlock()
	h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:])
	data := mad[ib.MADHdrLen+ib.SAHdrLen:]
	switch status := m.Status(); {
	case status == ib.MADStatusUnsupported && mandatory(t.attr):
		c.end(t, answer{err: ErrUnreachable})
	case status != ib.SAStatusOK:
		c.end(t, answer{err: Rejection(status)})
	case h.RMPPFlags()&ib.RMPPFlagActive != 0:
		c.segment(t, from, sl, mad, h, data)
	case m.Method() == ib.MethodTableResp:
		c.end(t, answer{err: ErrMalformed})
	default:
		c.end(t, answer{data: append([]byte(nil), data...)})
	}
}

// acknowledge acknowledges a segment that nobody waits for any more: of a table that is complete, whose last acknowledgement was lost, or
// that came too late. Else the administrator repeats it until it gives up, and OpenSM logs an error.
func acknowledge(c *Client, from ib.LID, sl ib.SL, mad []byte) {
	m, _ := ib.AsMAD(mad)
	h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:])
	n := h.RMPPData1()
	if m.Method() != ib.MethodTableResp || h.RMPPVersion() != ib.RMPPVersion || h.RMPPFlags()&ib.RMPPFlagActive == 0 || h.RMPPType() != ib.RMPPTypeData || n == 0 ||
		!c.isSM(from) {
		return
	}
	t := table{last: n, window: n + rmppWindow}
	t.reply(mad, rmppVerdict{reply: ib.RMPPTypeAck})
	_ = c.transport.SendMAD(from, sl, mad) // the administrator repeats the segment
}

// mandatory reports whether every SA knows an attribute: if it is not known at the SM's LID, there is no SA.
func mandatory(attr uint16) bool {
	return attr == ib.AttrPathRecord || attr == ib.AttrMCMemberRecord || attr == ib.AttrInformInfo
}

// segment takes a segment of a table and acknowledges it to the sender.
func (c *Client) segment(t *try, from ib.LID, sl ib.SL, mad []byte, h ib.SAHeader, data []byte) {
	v := t.table.segment(h, data)
	if v.reply != 0 {
		t.table.reply(mad, v)
		_ = c.transport.SendMAD(from, sl, mad) // as good as lost: the sender repeats the segment
	}
	if v.done {
		c.end(t, answer{table: t.table, err: v.err})
		return
	}
	c.count(func(s *Stats) { s.Segments++ })
	select {
	case t.progress <- struct{}{}:
	default:
	}
}

// end gives a try its answer. Further answers to it count as late.
func (c *Client) end(t *try, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Answers++
	if a.err != nil {
		c.stats.Rejected++
	}
	if a.table != nil && a.table.last > 1 {
		c.stats.Tables++
	}
	for tid, o := range c.tries {
		if o == t {
			delete(c.tries, tid)
		}
	}
	t.give(a)
}
