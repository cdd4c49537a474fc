// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

var anyMGID = ib.GID{0: 0xff, 1: 0x12, 15: 1}

// ask lets the client ask for the path to a group in the background.
func ask(ctx context.Context, c *Client) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := c.Path(ctx, anyMGID)
		got <- err
	}()
	return got
}

// TestPatience checks the waits for the answers to tries that the SA may never have seen: short at first.
func TestPatience(t *testing.T) {
	c := Config{}.withDefaults()
	var sum time.Duration
	for i, want := range []time.Duration{250, 250, 250, 500, 1000, 2000, 4000, 4000} {
		if got := c.patience(i); got != want*time.Millisecond {
			t.Errorf("try %d waits %v", i, got)
		}
		sum += c.patience(i)
	}
	if c.Tries != 8 || sum < 12*time.Second {
		t.Errorf("%d tries wait %v", c.Tries, sum)
	}
}

func TestTries(t *testing.T) {
	c, w := newWireClient(t, Config{Tries: 6})
	got := ask(t.Context(), c)
	var all []sent
	seen := map[uint64]bool{}
	for range 6 {
		m := w.next(t)
		all = append(all, m)
		seen[tidOf(m.mad)] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d transaction IDs for 6 tries", len(seen))
	}
	if first, last := all[1].at.Sub(all[0].at), all[5].at.Sub(all[4].at); first < 20*time.Millisecond || last < 80*time.Millisecond {
		t.Errorf("pauses of %v and then %v", first, last)
	}
	if err := <-got; !errors.Is(err, ErrTimeout) {
		t.Errorf("without an answer: %v", err)
	}
	if s := c.Stats(); s.Requests != 6 || s.Timeouts != 6 {
		t.Errorf("%+v", s)
	}
}

// TestAnswerToAnEarlierTry tests a late answer, with an upper half of the transaction ID that others have written.
func TestAnswerToAnEarlierTry(t *testing.T) {
	c, w := newWireClient(t, Config{})
	got := ask(t.Context(), c)
	first := w.next(t)
	w.next(t)
	w.in <- inbound{from: smLID, mad: withHeader(reply(first.mad, 0, nil), func(f *ib.MADFields) { f.TID |= 0xabcd << 48 })}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestBelievesOnlyTheSA sends four wrong answers and a right one.
func TestBelievesOnlyTheSA(t *testing.T) {
	c, w := newWireClient(t, Config{FirstWait: time.Second})
	got := ask(t.Context(), c)
	request := w.next(t).mad
	denied, right := reply(request, ib.SAStatusDenied, nil), reply(request, ib.SAStatusNoRecords, nil)
	w.in <- inbound{from: 9, mad: denied}
	w.in <- inbound{from: smLID, mad: withHeader(denied, func(f *ib.MADFields) { f.TID++ })}
	w.in <- inbound{from: smLID, mad: withHeader(denied, func(f *ib.MADFields) { f.AttrID = ib.AttrMCMemberRecord })}
	w.in <- inbound{from: smLID, mad: withHeader(denied, func(f *ib.MADFields) { f.Method = ib.MethodDeleteResp })}
	w.in <- inbound{from: smLID, mad: withHeader(denied, func(f *ib.MADFields) { f.Class = ib.ClassCM })}
	w.in <- inbound{from: smLID, mad: withHeader(denied, func(f *ib.MADFields) { f.Method = ib.MethodGet })}
	w.in <- inbound{from: smLID, mad: right}
	w.in <- inbound{from: smLID, mad: denied}
	if err := <-got; !errors.Is(err, NoRecords) {
		t.Errorf("%v, want the right answer", err)
	}
	for end := time.Now().Add(time.Minute); c.Stats().Received < 8 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if s := c.Stats(); s.Late != 5 || s.Ignored != 2 || s.Answers != 1 || s.Requests != 1 {
		t.Errorf("%+v", s)
	}
}

func TestPassingRejections(t *testing.T) {
	c, w := newWireClient(t, Config{FirstWait: 40 * time.Millisecond, Tries: 3})
	got := ask(t.Context(), c)
	w.in <- inbound{from: smLID, mad: reply(w.next(t).mad, ib.MADStatusBusy, nil)}
	m := w.next(t)
	w.in <- inbound{err: &LostError{tidOf(m.mad), ErrUnreachable}}
	w.in <- inbound{from: smLID, mad: reply(w.next(t).mad, 0, nil)}
	if err := <-got; err != nil {
		t.Errorf("busy, unreachable, then well: %v", err)
	}
	for status, want := range map[uint16]error{ib.MADStatusBusy: Busy, ib.MADStatusUnsupported: ErrUnreachable} {
		got = ask(t.Context(), c)
		for range 3 {
			w.in <- inbound{from: smLID, mad: reply(w.next(t).mad, status, nil)}
		}
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("status %#x for ever: %v, want %v", status, err, want)
		}
	}
}

// TestSMMoves moves the SM to another LID between two tries.
func TestSMMoves(t *testing.T) {
	c, w := newWireClient(t, Config{Tries: 2})
	w.setPort(func(p *ib.PortState) { p.SMLID = 0 })
	if err := <-ask(t.Context(), c); !errors.Is(err, ErrNoSM) {
		t.Errorf("without an SM: %v", err)
	}
	w.setPort(func(p *ib.PortState) { p.SMLID = smLID })
	got := ask(t.Context(), c)
	if m := w.next(t); m.to != smLID {
		t.Errorf("the first try went to %v", m.to)
	}
	w.setPort(func(p *ib.PortState) { p.SMLID = 7 })
	m := w.next(t)
	if m.to != 7 {
		t.Errorf("the second try went to %v", m.to)
	}
	w.in <- inbound{from: 7, mad: reply(m.mad, 0, nil)}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestOutstanding(t *testing.T) {
	c, w := newWireClient(t, Config{Outstanding: 2, FirstWait: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { <-ask(ctx, c) })
	}
	w.next(t)
	second := w.next(t)
	select {
	case <-w.sent:
		t.Error("three requests are under way, two may be")
	case <-time.After(30 * time.Millisecond):
	}
	w.in <- inbound{from: smLID, mad: reply(second.mad, 0, nil)}
	w.next(t)
	cancel()
	wg.Wait()
}

func TestEnds(t *testing.T) {
	c, w := newWireClient(t, Config{FirstWait: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := <-ask(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beyond its context: %v", err)
	}
	w.next(t)
	got := ask(t.Context(), c)
	w.next(t)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("under way at Close: %v", err)
	}
	if err := <-ask(t.Context(), c); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// report makes a notice as the SA reports it.
func report(tid uint64, trap uint16) []byte {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodReport, TID: tid, AttrID: ib.AttrNotice})
	ib.PutNotice(b[ib.MADHdrLen+ib.SAHdrLen:], ib.NoticeFields{IsGeneric: true, Trap: trap, IssuerLID: smLID})
	return b
}

func TestReports(t *testing.T) {
	c, w := newWireClient(t, Config{})
	w.in <- inbound{from: 9, mad: report(1, 64)} // not the SA: neither answered nor delivered
	w.in <- inbound{from: smLID, mad: report(1, 65)}
	w.in <- inbound{from: smLID, mad: report(1, 65)}
	w.in <- inbound{from: smLID, mad: report(2, 66)}
	for i, want := range []struct {
		to  ib.LID
		tid uint64
	}{{smLID, 1}, {smLID, 1}, {smLID, 2}, {9, 3}} {
		if want.to != smLID {
			w.setPort(func(p *ib.PortState) { p.SMLID = want.to })
			w.in <- inbound{from: want.to, mad: report(want.tid, 67)}
		}
		m := w.next(t)
		mad, _ := ib.AsMAD(m.mad)
		if m.to != want.to || mad.TID() != want.tid || mad.Method() != ib.MethodReportResp || mad.AttrID() != ib.AttrNotice {
			t.Errorf("answer %d: to %v, %+v", i, m.to, mad.Fields())
		}
	}
	for _, want := range []uint16{65, 66, 67} {
		if n := <-c.Notices(); n.Trap != want {
			t.Errorf("notice of trap %d, want %d", n.Trap, want)
		}
	}
	w.in <- inbound{from: 9, mad: report(3, 64)} // an SA that has restarted its transaction IDs
	if n := <-c.Notices(); n.Trap != 64 {
		t.Errorf("notice of trap %d, want 64", n.Trap)
	}
	w.next(t)
	if s := c.Stats(); s.Notices != 4 || s.Repeated != 1 || s.Ignored != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReportsAge(t *testing.T) {
	var r reports
	mad, at := report(1, 66), time.Unix(1700000000, 0)
	for i, want := range []bool{false, true, true, false} {
		if i == 3 {
			at = at.Add(reportAge)
		}
		if got := r.repeated(mad, at); got != want {
			t.Errorf("report %d: repeated %v, want %v", i, got, want)
		}
	}
	for i := range uint64(reportsKept) {
		r.repeated(report(i+2, 66), at)
	}
	if r.repeated(mad, at) {
		t.Error("more reports are kept than there is room for")
	}
}

// TestAliasEcho tests answers to a Set, which contain what the SA has made of it.
func TestAliasEcho(t *testing.T) {
	c, w := newWireClient(t, Config{FirstWait: 5 * time.Second})
	for _, e := range []struct {
		name           string
		asked, answers ib.GUID
		want           error
	}{
		{"as asked", 5, 5, nil},
		{"chosen by the SA", 0, 6, nil},
		{"nothing chosen", 0, 0, ErrAliasTaken},
		{"left empty", 5, 0, ErrAliasTaken},
		{"another", 5, 6, ErrAliasTaken},
	} {
		go func() {
			m := w.next(t).mad
			rec, _ := ib.AsGUIDInfoRecord(m[ib.MADHdrLen+ib.SAHdrLen:])
			f := rec.Fields()
			f.GUIDs[1] = e.answers
			data := make([]byte, ib.GUIDInfoRecordLen)
			ib.PutGUIDInfoRecord(data, f)
			w.in <- inbound{from: smLID, mad: reply(m, 0, data)}
		}()
		if got, err := c.SetAlias(t.Context(), 9, e.asked); !errors.Is(err, e.want) || err == nil && got != e.answers {
			t.Errorf("%s: %v, %v", e.name, got, err)
		}
	}
	if _, err := c.SetAlias(t.Context(), 256*8, 1); err == nil {
		t.Error("an alias in a block that no record has")
	}
}
