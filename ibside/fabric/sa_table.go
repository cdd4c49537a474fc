// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"sync"
	"time"

	"causeway/ibside/ib"
)

// maxTable is the largest answer in bytes of records: the limit of ibside/sa's client.
const maxTable = 1 << 20

// records are the records of an answer, each padded to a multiple of 8 bytes.
type records struct {
	data []byte
	step int // from record to record; all are of one length
	n    int
	full bool // there are more than fit into an answer
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

// A transfer sends a table in segments (RMPP, IBTA vol 1 §13.6):
//
//	SA                     client
//	DATA 1, first  ──────▶
//	               ◀────── ACK 1, window ends at 33
//	DATA 2 … 33    ──────▶
//	               ◀────── ACK 33, window ends at 65
//	DATA 34, last  ──────▶
//	               ◀────── ACK 34
type transfer struct {
	request request // without its data
	found   *records
	total   uint32 // segments, counted from 1
	acked   uint32 // the last acknowledged one
	sent    uint32
	window  uint32 // the last one that may be sent
	tries   int    // since the last progress
	again   *time.Timer
}

const (
	maxTransfers     = 64 // at a time
	transfersPerPort = 8
	transferWindow   = 64 // unacknowledged segments at most: a quarter of QP1's buffers
	transferWait     = 500 * time.Millisecond
	transferTries    = 5

	rmppOwn    = 12                    // length of the RMPP header within ib.SAHdrLen
	rmppHeader = ib.SAHdrLen - rmppOwn // counted in each segment's length
)

// rmppSender sends tables. Its callers hold mu.
type rmppSender struct {
	mu        *sync.Mutex // the administrator's, for the transfers' timers
	mads      madSender
	transfers map[madID]*transfer
}

// transfer begins to send a table. If begun is false, the status is the answer.
func (s *rmppSender) transfer(r *request, found *records) (status uint16, begun bool) {
	x := madID{r.from.LID, r.mad.TID()}
	if s.transfers[x] != nil {
		return ib.SAStatusOK, true // a retry of a request whose answer is being sent
	}
	mine := 0
	for o := range s.transfers {
		if o.lid == x.lid {
			mine++
		}
	}
	if len(s.transfers) >= maxTransfers || mine >= transfersPerPort {
		return ib.MADStatusBusy, false
	}
	t := &transfer{request: *r, found: found, total: uint32(max(1, (len(found.data)+ib.SADataLen-1)/ib.SADataLen)), window: 1}
	t.request.mad, t.request.data = append(ib.MAD(nil), r.mad...), nil
	t.again = time.AfterFunc(transferWait, func() { s.repeatTransfer(x, t) })
	s.transfers[x] = t
	s.sendSegments(t)
	return ib.SAStatusOK, true
}

// sendSegments sends the segments within the window.
func (s *rmppSender) sendSegments(t *transfer) {
	for t.sent < min(t.window, t.total) {
		t.sent++
		s.mads.SendMAD(t.request.back(), t.segment(t.sent))
	}
	t.again.Reset(transferWait)
}

// segment makes one MAD. The first has the total length, the last its own.
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

// acknowledged processes an RMPP ACK, STOP or ABORT. An acknowledgement of segments that were not sent ends the
// transfer.
func (s *rmppSender) acknowledged(x madID, h ib.SAHeader) {
	t := s.transfers[x]
	switch last := h.RMPPData1(); {
	case t == nil:
	case h.RMPPType() != ib.RMPPTypeAck, last > t.sent, last == t.total:
		s.endTransfer(x)
	case last > t.acked || last == t.acked && h.RMPPData2() > t.window:
		t.acked, t.tries = last, 0
		t.window = max(t.window, min(h.RMPPData2(), last+transferWindow))
		s.sendSegments(t)
	}
}

// endTransfers ends the transfers to some ports.
func (s *rmppSender) endTransfers(with func(ib.LID) bool) {
	for x := range s.transfers {
		if with(x.lid) {
			s.endTransfer(x)
		}
	}
}

func (s *rmppSender) endTransfer(x madID) {
	s.transfers[x].again.Stop()
	delete(s.transfers, x)
}

// repeatTransfer resends segments that were not acknowledged in time.
func (s *rmppSender) repeatTransfer(x madID, t *transfer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transfers[x] != t {
		return
	}
	if t.tries++; t.tries >= transferTries {
		s.endTransfer(x)
		return
	}
	t.sent = t.acked
	s.sendSegments(t)
}
