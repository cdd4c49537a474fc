// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"
	"testing/synctest"

	"causeway/ibside/ib"
)

// tableRig is a subnet whose table of groups has many segments.
func tableRig(t *testing.T) (*joinRig, int) {
	r := newJoinRig(t)
	const groups = 100
	for i := range groups {
		if status, _ := r.a.create(t, mustGID(fmt.Sprintf("ff12::1:%x", i)), 1); status != 0 {
			t.Fatalf("status %#x", status)
		}
	}
	return r, ((groups+1)*56 + ib.SADataLen - 1) / ib.SADataLen
}

// rmpp sends an acknowledgement, or a stop, for the last request.
func (c *saAsker) rmpp(t testing.TB, kind uint8, last, window uint32) {
	t.Helper()
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodGetTable, TID: c.tid, AttrID: ib.AttrMCMemberRecord,
	})
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{
		RMPPVersion: ib.RMPPVersion, RMPPType: kind, RMPPFlags: ib.RMPPFlagActive, RMPPData1: last, RMPPData2: window,
	})
	if err := c.port.SendMAD(c.hca.Info().SMLID, 0, b); err != nil {
		t.Fatal(err)
	}
}

// segments receives segments and returns the number of the last.
func (c *saAsker) segments(t testing.TB, n int) (last uint32) {
	t.Helper()
	for range n {
		h, _ := ib.AsSAHeader(c.next(t)[ib.MADHdrLen:])
		last = h.RMPPData1()
	}
	return last
}

func (a *SA) underWay() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tables.transfers)
}

// TestTransfer tests a receiver that is slow, then silent, then one that breaks the protocol.
func TestTransfer(t *testing.T) { synctest.Test(t, testTransfer) }

func testTransfer(t *testing.T) {
	r, total := tableRig(t)
	sa := r.fabric.SA()
	begin := func() {
		t.Helper()
		r.b.send(t, ib.MethodGetTable, ib.AttrMCMemberRecord, 0, nil)
		if n := r.b.segments(t, 1); n != 1 || sa.underWay() != 1 {
			t.Fatalf("segment %d came first; %d transfers", n, sa.underWay())
		}
	}
	begin()
	r.b.rmpp(t, ib.RMPPTypeAck, 1, 4)
	if n := r.b.segments(t, 3); n != 4 {
		t.Errorf("segment %d came last; the window ends at 4", n)
	}
	if n := r.b.segments(t, 3); n != 4 {
		t.Errorf("segment %d came last in the repetition of three", n)
	}
	r.b.rmpp(t, ib.RMPPTypeAck, 0, 2) // an acknowledgement of long ago
	r.b.rmpp(t, ib.RMPPTypeAck, 4, 1<<31)
	if n := r.b.segments(t, total-4); n != uint32(total) {
		t.Errorf("segment %d came last, of %d", n, total)
	}
	r.b.rmpp(t, ib.RMPPTypeAck, uint32(total), 1<<31)
	waitFor(t, "the end", func() bool { return sa.underWay() == 0 })
	for name, breach := range map[string]func(){
		"a segment that was not sent is acknowledged": func() { r.b.rmpp(t, ib.RMPPTypeAck, 9, 20) },
		"stop":                       func() { r.b.rmpp(t, ib.RMPPTypeStop, 0, 0) },
		"abort":                      func() { r.b.rmpp(t, ib.RMPPTypeAbort, 0, 0) },
		"a type that does not exist": func() { r.b.rmpp(t, 77, 0, 0) },
		"silence":                    func() { r.b.segments(t, transferTries-1) },
	} {
		begin()
		breach()
		waitFor(t, "end after "+name, func() bool { return sa.underWay() == 0 })
	}
	if n := len(r.b.port.queue); n != 0 {
		t.Errorf("%d segments more than there should be", n)
	}
}

// TestTransfersBounded begins more transfers than a port may. A repeated request does not begin another one.
func TestTransfersBounded(t *testing.T) {
	r, _ := tableRig(t)
	for range transfersPerPort {
		r.b.send(t, ib.MethodGetTable, ib.AttrMCMemberRecord, 0, nil)
		r.b.tid--
		r.b.send(t, ib.MethodGetTable, ib.AttrMCMemberRecord, 0, nil)
	}
	r.b.segments(t, transfersPerPort)
	if status, _ := r.b.query(t, ib.MethodGetTable, ib.AttrMCMemberRecord, 0, nil); status != ib.MADStatusBusy {
		t.Errorf("one more: status %#x", status)
	}
	if n := r.fabric.SA().Requests()["busy"]; n != 1 {
		t.Errorf("%d were busy", n)
	}
	r.b.hca.Close()
	if n := r.fabric.SA().underWay(); n != 0 {
		t.Errorf("%d transfers to a port that has gone", n)
	}
}

// TestTableTooLarge asks for more records than an answer may have.
func TestTableTooLarge(t *testing.T) {
	found := &records{}
	for range maxTable/72 + 1 {
		found.add(make([]byte, 72))
	}
	if !found.full || len(found.data) > maxTable || found.offsetWords() != 9 {
		t.Errorf("%d bytes, full %v, %d words from record to record", len(found.data), found.full, found.offsetWords())
	}
	got := (&SA{}).conclude(&request{mad: ib.PutMAD(make([]byte, ib.MADLen), ib.MADFields{Method: ib.MethodGetTable})}, answer{found: found})
	if got.status != ib.SAStatusNoResources {
		t.Errorf("status %#x", got.status)
	}
}
