// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"causeway/ibside/ib"
)

// A table comes in segments of at most ib.SADataLen bytes (RMPP, IBTA vol 1 §13.6), each a MAD with all headers. The
// sender may be at most a window ahead of the last acknowledged segment:
//
//	SA                     client
//	DATA 1, first  ──────▶
//	               ◀────── ACK 1, new window last 33
//	DATA 2 … 33    ──────▶
//	               ◀────── ACK 33, new window last 65
//	DATA 34, last  ──────▶
//	               ◀────── ACK 34
const (
	// rmppWindow is how many segments may be under way: fewer than any receive queue on the path has room for.
	rmppWindow = 32
	// rmppHeader is the part of each segment's payload length that is no data: the SA header, without RMPP's.
	rmppHeader = ib.SAHdrLen - rmppOwn
	rmppOwn    = 12
)

// table assembles the segments of one answer.
type table struct {
	data        []byte
	offsetWords uint16 // from record to record
	last        uint32 // last segment that came in order
	window      uint32 // last segment that the sender may send
	max         int    // bytes
}

// rmppVerdict is what to do after a segment.
type rmppVerdict struct {
	reply  uint8 // RMPP type of the answer; 0: none
	status uint8 // with STOP and ABORT
	done   bool  // the table is complete, or err says why it never will be
	err    error
}

// segment takes an RMPP packet: the SA header, and ib.SADataLen bytes of data. A segment that comes too early is
// ignored: the sender repeats it.
func (t *table) segment(h ib.SAHeader, data []byte) rmppVerdict {
	switch h.RMPPType() {
	case ib.RMPPTypeData:
	case ib.RMPPTypeStop, ib.RMPPTypeAbort:
		return rmppVerdict{done: true, err: ErrMalformed}
	default:
		return rmppVerdict{} // an acknowledgement of segments that were never sent
	}
	first := h.RMPPFlags()&ib.RMPPFlagFirst != 0
	switch n := h.RMPPData1(); {
	case h.RMPPVersion() != ib.RMPPVersion || n == 0 || first != (n == 1):
		return t.reject(ib.RMPPStatusBadSegment, ErrMalformed)
	case n <= t.last:
		return rmppVerdict{reply: ib.RMPPTypeAck} // the sender has not received the acknowledgement
	case n != t.last+1:
		return rmppVerdict{}
	}
	last := h.RMPPFlags()&ib.RMPPFlagLast != 0
	if last {
		data = data[:lastLength(h.RMPPData2())]
	}
	if len(t.data)+len(data) > t.max {
		return t.reject(ib.RMPPStatusResources, ErrTooLarge)
	}
	if first {
		t.offsetWords = h.AttrOffsetWords()
	}
	t.last++
	t.data = append(t.data, data...)
	switch {
	case last:
		return rmppVerdict{reply: ib.RMPPTypeAck, done: true}
	case t.last >= t.window:
		t.window = t.last + rmppWindow
		return rmppVerdict{reply: ib.RMPPTypeAck}
	}
	return rmppVerdict{}
}

func (t *table) reject(status uint8, err error) rmppVerdict {
	kind := uint8(ib.RMPPTypeAbort)
	if status == ib.RMPPStatusResources {
		kind = ib.RMPPTypeStop
	}
	return rmppVerdict{reply: kind, status: status, done: true, err: err}
}

// lastLength returns how many bytes of the last segment are data. An impossible length means all of it, as in Linux.
func lastLength(payload uint32) int {
	if payload > rmppHeader+ib.SADataLen {
		return ib.SADataLen
	}
	return int(max(payload, rmppHeader)) - rmppHeader
}

// reply overwrites mad, which contains a segment, with the answer to it. The method loses the response bit, because the
// answer goes in the direction of the request (Linux, mad_rmpp.c).
func (t *table) reply(mad []byte, v rmppVerdict) {
	m, _ := ib.AsMAD(mad)
	f := m.Fields()
	f.Method &^= ib.MethodResponse
	f.Status = 0
	h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:])
	sa := h.Fields()
	sa.RMPPVersion, sa.RMPPType, sa.RMPPFlags, sa.RMPPRespTime = ib.RMPPVersion, v.reply, ib.RMPPFlagActive, 0
	sa.RMPPStatus, sa.RMPPData1, sa.RMPPData2 = v.status, 0, 0
	if v.reply == ib.RMPPTypeAck {
		sa.RMPPData1, sa.RMPPData2 = t.last, t.window
	}
	ib.PutMAD(mad, f)
	ib.PutSAHeader(mad[ib.MADHdrLen:], sa)
	clear(mad[ib.MADHdrLen+ib.SAHdrLen:])
}

// records cuts a table into its records, of at least n bytes each.
func (t *table) records(n int) ([][]byte, error) {
	if len(t.data) == 0 {
		return nil, nil
	}
	step := 8 * int(t.offsetWords)
	if step < n || len(t.data) < n {
		return nil, ErrMalformed
	}
	var all [][]byte
	for b := t.data; len(b) >= n; b = b[min(step, len(b)):] {
		all = append(all, b[:n:n])
	}
	return all, nil
}
