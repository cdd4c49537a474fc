// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"time"

	"causeway/ibside/ib"
)

const (
	// reportsKept is how many reports are kept, to recognise one that the SA repeats because our answer was lost.
	reportsKept = 64
	// reportAge is how long they are kept: longer than all repetitions of one report take, but not for ever, because a
	// restarted SA begins its transaction IDs again, and a new report may then look like an earlier one.
	reportAge = 10 * time.Second
)

// reports keeps the latest reports, with all their bytes. Only the receiver uses it.
type reports struct {
	seen [reportsKept]pastReport
	next int
}

type pastReport struct {
	mad [ib.MADLen]byte
	at  time.Time
}

// repeated reports whether a report came before, and keeps it.
func (r *reports) repeated(mad []byte, now time.Time) bool {
	for i := range r.seen {
		if p := &r.seen[i]; now.Sub(p.at) < reportAge && bytes.Equal(p.mad[:], mad) {
			return true
		}
	}
	r.seen[r.next] = pastReport{[ib.MADLen]byte(mad), now}
	r.next = (r.next + 1) % reportsKept
	return false
}

// Notices returns the channel of notices that were subscribed to. It is never closed. A reader that is too slow loses
// notices (Stats.NoticesDropped); they are hints, and their content can be queried.
func (c *Client) Notices() <-chan ib.NoticeFields { return c.notices }

// reported answers a report and passes its notice on. It is answered even if there is no room for the notice: without
// an answer the SA would end the subscription.
func (c *Client) reported(from ib.LID, sl ib.SL, mad []byte) {
	if !c.isSM(from) {
		c.count(func(s *Stats) { s.Ignored++ })
		return
	}
	n, _ := ib.AsNotice(mad[ib.MADHdrLen+ib.SAHdrLen:])
	notice := n.Fields()
	repeated := c.reports.repeated(mad, time.Now())
	m, _ := ib.AsMAD(mad)
	f := m.Fields()
	f.Method = ib.MethodReportResp
	ib.PutMAD(mad, f)
	_ = c.transport.SendMAD(from, sl, mad) // as good as lost: the SA reports again
	c.mu.Lock()
	defer c.mu.Unlock()
	if repeated {
		c.stats.Repeated++
		return
	}
	if c.onPort != nil && (notice.Trap == ib.TrapGIDInService || notice.Trap == ib.TrapGIDOutOfService) {
		c.onPort(notice.GID())
		c.stats.Notices++
		return
	}
	select {
	case c.notices <- notice:
		c.stats.Notices++
	default:
		c.stats.NoticesDropped++
	}
}

// followPorts has f told of each notice that a port came or went, before any answer that came after it, in place of those who
// read Notices. f must not block, nor call the client.
func (c *Client) followPorts(f func(ib.GID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onPort = f
}

// isSM reports whether the SA is at a LID. It may have moved since the last request.
func (c *Client) isSM(from ib.LID) bool {
	c.mu.Lock()
	same := from == c.sm
	c.mu.Unlock()
	if same {
		return true
	}
	p, err := c.PortState()
	return err == nil && p.SMLID == from
}
