// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// sender sends a table as the kernel of an SA's host does (Linux, mad_rmpp.c): one segment until an acknowledgement
// announces a window, then up to the window's end; segments that were not acknowledged in time, again.
type sender struct {
	w       *wire
	request []byte
	data    []byte
	step    int // bytes from record to record
	lossy   bool

	acked, window uint32
	acks, stops   int
	enough        chan struct{} // closed when the client has everything: the last acknowledgement may have been lost
}

func (s *sender) segments() uint32 {
	return uint32(max(1, (len(s.data)+ib.SADataLen-1)/ib.SADataLen))
}

// segment makes segment n.
func (s *sender) segment(n uint32) []byte {
	b := reply(s.request, 0, nil)
	part := s.data[min(len(s.data), int(n-1)*ib.SADataLen):min(len(s.data), int(n)*ib.SADataLen)]
	f := ib.SAFields{
		RMPPVersion: ib.RMPPVersion, RMPPType: ib.RMPPTypeData, RMPPFlags: ib.RMPPFlagActive, RMPPData1: n,
		AttrOffsetWords: uint16(s.step / 8),
	}
	if n == 1 {
		f.RMPPFlags |= ib.RMPPFlagFirst
		f.RMPPData2 = uint32(len(s.data)) + rmppHeader*s.segments()
	}
	if n == s.segments() {
		f.RMPPFlags |= ib.RMPPFlagLast
		f.RMPPData2 = uint32(len(part)) + rmppHeader
	}
	ib.PutSAHeader(b[ib.MADHdrLen:], f)
	clear(b[ib.MADHdrLen+ib.SAHdrLen:])
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], part)
	return b
}

// run sends until everything is acknowledged, or the transfer is stopped.
func (s *sender) run(t *testing.T) {
	s.window = 1
	for end := time.Now().Add(time.Minute); s.acked < s.segments() && s.stops == 0; {
		select {
		case <-s.enough:
			return
		default:
		}
		if time.Now().After(end) {
			t.Errorf("%d of %d segments were acknowledged", s.acked, s.segments())
			return
		}
		for n := s.acked + 1; n <= min(s.window, s.segments()); n++ {
			if s.lossy && rand.N(8) == 0 {
				continue
			}
			s.w.in <- inbound{from: smLID, mad: s.segment(n)}
		}
		s.listen(t)
	}
}

// listen takes answers until one moves the window on, or the time is over.
func (s *sender) listen(t *testing.T) {
	patience := time.After(5 * time.Millisecond)
	if !s.lossy {
		patience = time.After(time.Minute)
	}
	for before := s.acked; s.acked == before && s.stops == 0; {
		select {
		case m := <-s.w.sent:
			s.hear(t, m.mad)
		case <-patience:
			return
		}
	}
}

func (s *sender) hear(t *testing.T, mad []byte) {
	m, _ := ib.AsMAD(mad)
	h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:])
	switch {
	case h.RMPPFlags()&ib.RMPPFlagActive == 0:
		s.request = mad // the client has timed out and asks again: an SA would begin a second transfer
	case m.Method() != ib.MethodGetTable || uint32(m.TID()) != uint32(tidOf(s.request)):
		t.Errorf("not an answer to a segment: %+v", m.Fields())
	case h.RMPPType() == ib.RMPPTypeStop || h.RMPPType() == ib.RMPPTypeAbort:
		s.stops++
	case h.RMPPData1() < s.acked || h.RMPPData1() > s.segments() || h.RMPPData2() < h.RMPPData1() && h.RMPPData1() < s.segments():
		t.Errorf("acknowledged %d with a window to %d after %d of %d", h.RMPPData1(), h.RMPPData2(), s.acked, s.segments())
	case !s.lossy || rand.N(8) > 0:
		s.acks++
		s.acked, s.window = h.RMPPData1(), h.RMPPData2()
	}
}

// recordStep is from one record of a group to the next: whole words of 8 bytes.
const recordStep = (ib.MCMemberRecordLen + 7) / 8 * 8

// groupRecords makes n different groups.
func groupRecords(n int) (data []byte, all []ib.MCMemberFields) {
	for i := range n {
		f := ib.MCMemberFields{MGID: ib.GID{0: 0xff, 1: 0x12, 14: byte(i >> 8), 15: byte(i)}, PKey: ib.PKeyDefault, QKey: ib.QKey(rand.Uint32())}
		all = append(all, f)
		data = append(data, make([]byte, recordStep)...)
		ib.PutMCMemberRecord(data[i*recordStep:], f)
	}
	return data, all
}

func TestTables(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		for _, n := range []int{0, 1, 3, 4, 25, 117, 118, 1000} { // 25 fill whole segments, 118 are more than a window
			t.Run(fmt.Sprintf("%d lossy %v", n, lossy), func(t *testing.T) { testTable(t, n, lossy) })
		}
	}
}

func testTable(t *testing.T, n int, lossy bool) {
	c, w := newWireClient(t, Config{FirstWait: 10 * time.Second})
	data, want := groupRecords(n)
	done, enough := make(chan *sender), make(chan struct{})
	go func() {
		s := &sender{w: w, request: (<-w.sent).mad, data: data, step: recordStep, lossy: lossy, enough: enough}
		s.run(t)
		done <- s
	}()
	got, err := c.Groups(t.Context(), 0, ib.MCMemberFields{})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d groups of %d, %v", len(got), len(want), err)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("group %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if lossy {
		close(enough)
	}
	if s := <-done; !lossy && s.segments() > 1 && s.acks != int(s.segments()-2)/rmppWindow+2 {
		t.Errorf("%d acknowledgements for %d segments", s.acks, s.segments())
	}
}

func TestTableTooLarge(t *testing.T) {
	c, w := newWireClient(t, Config{MaxTable: 1000})
	data, _ := groupRecords(20)
	done := make(chan *sender)
	go func() {
		s := &sender{w: w, request: (<-w.sent).mad, data: data, step: recordStep}
		s.run(t)
		done <- s
	}()
	if _, err := c.Groups(t.Context(), 0, ib.MCMemberFields{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if s := <-done; s.stops != 1 {
		t.Errorf("the sender was stopped %d times", s.stops)
	}
}

// TestLateSegments: a segment of a table that is not waited for any more is acknowledged, so that the administrator ends; another node's,
// and what is no segment, is not.
func TestLateSegments(t *testing.T) {
	c, w := newWireClient(t, Config{})
	segment := func(change func(*ib.MADFields, *ib.SAFields)) []byte {
		b := make([]byte, ib.MADLen)
		m := ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodTableResp, TID: 0x77, AttrID: ib.AttrServiceRecord}
		h := ib.SAFields{RMPPVersion: ib.RMPPVersion, RMPPType: ib.RMPPTypeData, RMPPFlags: ib.RMPPFlagActive | ib.RMPPFlagLast, RMPPData1: 7}
		change(&m, &h)
		ib.PutMAD(b, m)
		ib.PutSAHeader(b[ib.MADHdrLen:], h)
		return b
	}
	good := segment(func(*ib.MADFields, *ib.SAFields) {})
	w.in <- inbound{from: 9, mad: bytes.Clone(good)}
	w.in <- inbound{from: smLID, mad: segment(func(_ *ib.MADFields, h *ib.SAFields) { h.RMPPType = ib.RMPPTypeAck })}
	w.in <- inbound{from: smLID, mad: segment(func(_ *ib.MADFields, h *ib.SAFields) { h.RMPPData1 = 0 })}
	w.in <- inbound{from: smLID, mad: segment(func(m *ib.MADFields, _ *ib.SAFields) { m.Method = ib.MethodGetResp })}
	w.in <- inbound{from: smLID, mad: bytes.Clone(good)}
	got := w.next(t)
	h, _ := ib.AsSAHeader(got.mad[ib.MADHdrLen:])
	if h.RMPPType() != ib.RMPPTypeAck || h.RMPPData1() != 7 || h.RMPPData2() < 7 || tidOf(got.mad) != 0x77 {
		t.Errorf("type %d, segment %d, window to %d", h.RMPPType(), h.RMPPData1(), h.RMPPData2())
	}
	select {
	case more := <-w.sent:
		t.Errorf("and % x", more.mad[:60])
	default:
	}
	if s := c.Stats(); s.Late != 5 {
		t.Errorf("%+v", s)
	}
}

func TestSegments(t *testing.T) {
	ok := ib.SAFields{RMPPVersion: 1, RMPPType: ib.RMPPTypeData, RMPPFlags: ib.RMPPFlagActive, RMPPData1: 3, AttrOffsetWords: 9}
	for _, c := range []struct {
		name   string
		change func(*ib.SAFields)
		want   rmppVerdict
		grows  int
	}{
		{"the next", func(*ib.SAFields) {}, rmppVerdict{}, 200},
		{"at the window's end", func(f *ib.SAFields) { f.RMPPData1 = 3 }, rmppVerdict{}, 200},
		{"again", func(f *ib.SAFields) { f.RMPPData1 = 2 }, rmppVerdict{reply: ib.RMPPTypeAck}, 0},
		{"too early", func(f *ib.SAFields) { f.RMPPData1 = 4 }, rmppVerdict{}, 0},
		{"none", func(f *ib.SAFields) { f.RMPPData1 = 0 }, rmppVerdict{ib.RMPPTypeAbort, ib.RMPPStatusBadSegment, true, ErrMalformed}, 0},
		{"a first that is not", func(f *ib.SAFields) { f.RMPPFlags |= ib.RMPPFlagFirst },
			rmppVerdict{ib.RMPPTypeAbort, ib.RMPPStatusBadSegment, true, ErrMalformed}, 0},
		{"another version", func(f *ib.SAFields) { f.RMPPVersion = 2 },
			rmppVerdict{ib.RMPPTypeAbort, ib.RMPPStatusBadSegment, true, ErrMalformed}, 0},
		{"the last", func(f *ib.SAFields) { f.RMPPFlags |= ib.RMPPFlagLast; f.RMPPData2 = 20 + 72 },
			rmppVerdict{reply: ib.RMPPTypeAck, done: true}, 72},
		{"an empty last", func(f *ib.SAFields) { f.RMPPFlags |= ib.RMPPFlagLast; f.RMPPData2 = 20 },
			rmppVerdict{reply: ib.RMPPTypeAck, done: true}, 0},
		{"a last with an impossible length", func(f *ib.SAFields) { f.RMPPFlags |= ib.RMPPFlagLast; f.RMPPData2 = 1 << 31 },
			rmppVerdict{reply: ib.RMPPTypeAck, done: true}, 200},
		{"a stop", func(f *ib.SAFields) { f.RMPPType = ib.RMPPTypeStop }, rmppVerdict{done: true, err: ErrMalformed}, 0},
		{"an acknowledgement", func(f *ib.SAFields) { f.RMPPType = ib.RMPPTypeAck }, rmppVerdict{}, 0},
	} {
		tab := &table{data: make([]byte, 400), last: 2, window: 34, max: 1000, offsetWords: 8}
		f := ok
		c.change(&f)
		h := ib.PutSAHeader(make([]byte, ib.SAHdrLen), f)
		if got := tab.segment(h, make([]byte, ib.SADataLen)); got != c.want || len(tab.data) != 400+c.grows || tab.offsetWords != 8 {
			t.Errorf("%s: %+v, %d bytes, offset %d", c.name, got, len(tab.data), tab.offsetWords)
		}
	}
	tab := &table{last: 33, window: 34, max: 1000}
	ok.RMPPData1 = 34
	if got := tab.segment(ib.PutSAHeader(make([]byte, ib.SAHdrLen), ok), make([]byte, ib.SADataLen)); got.reply != ib.RMPPTypeAck || tab.window != 66 {
		t.Errorf("at the window's end: %+v, %+v", got, tab)
	}
}

func TestRecords(t *testing.T) {
	b := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 20)
	for _, c := range []struct {
		name   string
		len, n int
		step   uint16
		want   int
		err    error
	}{
		{"nothing", 0, 52, 0, 0, nil},
		{"three of 56 bytes, the last unpadded", 160, 48, 7, 3, nil},
		{"two and a rest", 160, 64, 8, 2, nil},
		{"no offset", 160, 64, 0, 0, ErrMalformed},
		{"an offset shorter than a record", 160, 64, 7, 0, ErrMalformed},
		{"less than a record", 40, 64, 8, 0, ErrMalformed},
	} {
		tab := &table{data: b[:c.len], offsetWords: c.step}
		got, err := tab.records(c.n)
		if len(got) != c.want || err != c.err {
			t.Errorf("%s: %d records, %v", c.name, len(got), err)
		}
	}
}
