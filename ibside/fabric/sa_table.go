// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"time"

	"causeway/ibside/ib"
)

// maxTable is how many bytes of records one answer may have: what a client of ours takes.
const maxTable = 1 << 20

// records are what a query has found, one after the other as in an answer: each begins at a multiple of 8 bytes.
type records struct {
	data []byte
	step int // from record to record; all are of one length
	n    int
	full bool // there were more than an answer may have
}

func (f *records) add(b []byte) {
	f.step = (len(b) + 7) &^ 7
	if f.full = f.full || len(f.data)+f.step > maxTable; f.full {
		return
	}
	f.data = append(f.data, b...)
	f.data = append(f.data, make([]byte, f.step-len(b))...)
	f.n++
}

func (f *records) offsetWords() uint16 { return uint16(f.step / 8) }

// A transfer is a table on its way to who asked for it, in segments (RMPP, IBTA vol 1 §13.6):
//
//	SA                     client
//	DATA 1, first  ──────▶
//	               ◀────── ACK 1, window ends at 33
//	DATA 2 … 33    ──────▶
//	               ◀────── ACK 33, window ends at 65
//	DATA 34, last  ──────▶
//	               ◀────── ACK 34
type transfer struct {
	request request // its data is not kept
	found   *records
	total   uint32 // segments, counted from 1
	acked   uint32 // the last one that is known to have arrived
	sent    uint32
	window  uint32 // the last one that may be sent
	tries   int    // since something was acknowledged
	again   *time.Timer
}

const (
	maxTransfers     = 64 // under way at once
	transfersPerPort = 8
	transferWindow   = 64 // segments on the way, at most: a quarter of what QP1 has buffers for
	transferWait     = 500 * time.Millisecond
	transferTries    = 5

	rmppOwn    = 12                    // the RMPP header's share of ib.SAHdrLen
	rmppHeader = ib.SAHdrLen - rmppOwn // counts in each segment's length
)

// transfer begins to send a table. Begun, it answers by itself; else the status is the answer.
func (a *SA) transfer(r *request, found *records) (status uint16, begun bool) {
	x := madID{r.from.LID, r.mad.TID()}
	if a.transfers[x] != nil {
		return ib.SAStatusOK, true // the request again: its answer is under way
	}
	mine := 0
	for o := range a.transfers {
		if o.lid == x.lid {
			mine++
		}
	}
	if len(a.transfers) >= maxTransfers || mine >= transfersPerPort {
		return ib.MADStatusBusy, false
	}
	t := &transfer{request: *r, found: found, total: uint32(max(1, (len(found.data)+ib.SADataLen-1)/ib.SADataLen)), window: 1}
	t.request.mad, t.request.data = append(ib.MAD(nil), r.mad...), nil
	t.again = time.AfterFunc(transferWait, func() { a.repeatTransfer(x, t) })
	a.transfers[x] = t
	a.sendSegments(t)
	return ib.SAStatusOK, true
}

// sendSegments sends what the window allows.
func (a *SA) sendSegments(t *transfer) {
	for t.sent < min(t.window, t.total) {
		t.sent++
		a.hca.SendMAD(t.request.back(), t.segment(t.sent))
	}
	t.again.Reset(transferWait)
}

// segment makes one of the MADs. The first says how long all are together, the last how long it is.
func (t *transfer) segment(n uint32) []byte {
	b := reply(&t.request, ib.SAStatusOK)
	part := t.found.data[int(n-1)*ib.SADataLen : min(len(t.found.data), int(n)*ib.SADataLen)]
	f := ib.SAFields{
		RMPPVersion: ib.RMPPVersion, RMPPType: ib.RMPPTypeData, RMPPFlags: ib.RMPPFlagActive, RMPPData1: n,
		SMKey: t.request.key, Components: t.request.mask, AttrOffsetWords: t.found.offsetWords(),
	}
	if n == 1 {
		f.RMPPFlags |= ib.RMPPFlagFirst
		f.RMPPData2 = uint32(len(t.found.data)) + rmppHeader*t.total
	}
	if n == t.total {
		f.RMPPFlags |= ib.RMPPFlagLast
		f.RMPPData2 = uint32(len(part)) + rmppHeader
	}
	ib.PutSAHeader(b[ib.MADHdrLen:], f)
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], part)
	return b
}

// acknowledged takes what the receiver of a table says of it. What it could not have received it cannot acknowledge.
func (a *SA) acknowledged(x madID, h ib.SAHeader) {
	t := a.transfers[x]
	switch last := h.RMPPData1(); {
	case t == nil:
	case h.RMPPType() != ib.RMPPTypeAck, last > t.sent, last == t.total:
		a.endTransfer(x)
	case last > t.acked || last == t.acked && h.RMPPData2() > t.window:
		t.acked, t.tries = last, 0
		t.window = max(t.window, min(h.RMPPData2(), last+transferWindow))
		a.sendSegments(t)
	}
}

func (a *SA) endTransfer(x madID) {
	a.transfers[x].again.Stop()
	delete(a.transfers, x)
}

// repeatTransfer sends again what was not acknowledged in time.
func (a *SA) repeatTransfer(x madID, t *transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.transfers[x] != t {
		return
	}
	if t.tries++; t.tries >= transferTries {
		a.endTransfer(x)
		return
	}
	t.sent = t.acked
	a.sendSegments(t)
}
