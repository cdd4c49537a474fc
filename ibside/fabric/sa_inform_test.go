// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// subscribe subscribes to a trap, or ends the subscription, and returns the status.
func (c *saAsker) subscribe(t testing.TB, trap uint16, change func(*ib.InformInfoFields)) uint16 {
	t.Helper()
	f := ib.InformInfoFields{
		LIDBegin: ib.InformAllLIDs, IsGeneric: true, Subscribe: true, Type: ib.InformAllTypes, Trap: trap, QPN: ib.QP1,
		Producer: ib.InformAllProducers,
	}
	if change != nil {
		change(&f)
	}
	b := make([]byte, ib.InformInfoLen)
	ib.PutInformInfo(b, f)
	status, got := c.query(t, ib.MethodSet, ib.AttrInformInfo, 0, b)
	if status == 0 && !bytes.Equal(got[:ib.InformInfoLen], b) {
		t.Errorf("a subscription\n% x is answered by\n% x", b, got[:ib.InformInfoLen])
	}
	return status
}

// next waits for a MAD that is not the answer to a request.
func (c *saAsker) next(t testing.TB) []byte {
	t.Helper()
	select {
	case got := <-c.port.queue:
		return got.mad
	case <-time.After(waitLimit):
		t.Fatal("no MAD came")
		return nil
	}
}

// confirm answers a report.
func (c *saAsker) confirm(t testing.TB, report []byte) {
	t.Helper()
	b := bytes.Clone(report)
	mad, _ := ib.AsMAD(b)
	f := mad.Fields()
	f.Method = ib.MethodReportResp
	ib.PutMAD(b, f)
	if err := c.port.SendMAD(c.hca.Info().SMLID, 0, b); err != nil {
		t.Fatal(err)
	}
}

// noticeOf parses a report.
func noticeOf(t testing.TB, b []byte) ib.NoticeFields {
	t.Helper()
	mad, _ := ib.AsMAD(b)
	if !mad.IsSA() || mad.Method() != ib.MethodReport || mad.AttrID() != ib.AttrNotice {
		t.Fatalf("not a report: %+v", mad.Fields())
	}
	n, _ := ib.AsNotice(b[ib.MADHdrLen+ib.SAHdrLen:])
	return n.Fields()
}

// TestReports tests a subscriber that answers the second repetition, and then not at all.
func TestReports(t *testing.T) {
	r := newJoinRig(t)
	if status := r.b.subscribe(t, ib.TrapGroupCreated, nil); status != 0 {
		t.Fatalf("status %#x", status)
	}
	mgid := mustGID("ff12::7")
	if status, _ := r.a.create(t, mgid, 1); status != 0 {
		t.Fatalf("status %#x", status)
	}
	first, again := r.b.next(t), r.b.next(t)
	n := noticeOf(t, first)
	sm := r.fabric.SA().HCA().Info()
	if n.GID() != mgid || n.Trap != ib.TrapGroupCreated || n.IssuerLID != sm.LID || n.IssuerGID != sm.GID || n.Producer != ib.ProducerSM {
		t.Errorf("notice %+v", n)
	}
	if !bytes.Equal(first, again) {
		t.Errorf("a report\n% x is repeated as\n% x", first, again)
	}
	r.b.confirm(t, again)
	waitFor(t, "the confirmation", func() bool { return r.fabric.SA().Reports().Confirmed == 1 })
	r.b.confirm(t, again) // an answer that nothing waits for
	if status, _ := r.a.create(t, mustGID("ff12::8"), 1); status != 0 {
		t.Fatalf("status %#x", status)
	}
	waitFor(t, "the last repetition", func() bool { return r.fabric.SA().Reports().GivenUp == 1 })
	want := ReportCounts{Reports: 2, Again: 1 + reportTries - 1, Confirmed: 1, GivenUp: 1}
	if c := r.fabric.SA().Reports(); c != want || len(r.b.port.queue) != reportTries {
		t.Errorf("%+v, and %d came; want %+v, %d", c, len(r.b.port.queue), want, reportTries)
	}
	if n := r.fabric.SA().Subscriptions(); n != 1 {
		t.Errorf("%d subscriptions are left; that of the silent subscriber must stay", n)
	}
}

// TestWhoIsTold checks which subscribers get a report: those that may not know of a group or port get none.
func TestWhoIsTold(t *testing.T) {
	f := newFabric(t, Config{PKeys: []ib.PKey{0xffff, 0x8001}})
	attach := func(name string, guid ib.GUID, pkeys ...ib.PKey) *saAsker {
		return newSAAsker(attachHCA(t, f, PortConfig{Name: name, GUID: guid, PKeys: pkeys}))
	}
	all, other := attach("all", 0xa, 0xffff, 0x8001), attach("other", 0xb, 0xffff)
	traps := []uint16{ib.TrapGroupCreated, ib.TrapGroupDeleted, ib.TrapGIDInService, ib.TrapGIDOutOfService}
	for _, c := range []*saAsker{all, other} {
		for _, trap := range traps {
			if status := c.subscribe(t, trap, nil); status != 0 {
				t.Fatalf("status %#x", status)
			}
		}
	}
	late := attach("late", 0xc, 0x8001, 0xffff)
	narrow := ib.MCMemberFields{MGID: mustGID("ff12::9"), PortGID: late.hca.Info().GID, QKey: 1, PKey: 0x8001, JoinState: ib.JoinFull}
	if status, _ := ask(t, late, ib.MethodSet, createMask, narrow); status != 0 {
		t.Fatalf("status %#x", status)
	}
	if err := late.hca.Close(); err != nil {
		t.Fatal(err)
	}
	told := func(c *saAsker, want ...uint16) {
		t.Helper()
		for _, trap := range want {
			b := c.next(t)
			c.confirm(t, b)
			if n := noticeOf(t, b); n.Trap != trap {
				t.Errorf("trap %d about %v, want %d", n.Trap, n.GID(), trap)
			}
		}
	}
	told(all, ib.TrapGIDInService, ib.TrapGroupCreated, ib.TrapGroupDeleted, ib.TrapGIDOutOfService)
	told(other, ib.TrapGIDInService, ib.TrapGIDOutOfService)
	waitFor(t, "the confirmations", func() bool { return f.SA().Reports().Confirmed == 6 })
	if len(all.port.queue)+len(other.port.queue) != 0 {
		t.Errorf("%d and %d more came", len(all.port.queue), len(other.port.queue))
	}
}

func TestSubscriptionWants(t *testing.T) {
	notice := ib.NoticeFields{
		IsGeneric: true, Type: noticeSubnetManagement, Producer: ib.ProducerSM, Trap: 66, IssuerLID: 5, IssuerGID: mustGID("fe80::5"),
	}
	for _, c := range []struct {
		name   string
		change func(*ib.InformInfoFields)
		want   bool
	}{
		{"all", func(*ib.InformInfoFields) {}, true},
		{"each trap", func(f *ib.InformInfoFields) { f.Trap = 0xffff }, true},
		{"another trap", func(f *ib.InformInfoFields) { f.Trap = 67 }, false},
		{"vendors'", func(f *ib.InformInfoFields) { f.IsGeneric = false }, false},
		{"the type", func(f *ib.InformInfoFields) { f.Type = noticeSubnetManagement }, true},
		{"another type", func(f *ib.InformInfoFields) { f.Type = 0 }, false},
		{"of managers", func(f *ib.InformInfoFields) { f.Producer = ib.ProducerSM }, true},
		{"of adapters", func(f *ib.InformInfoFields) { f.Producer = 1 }, false},
		{"of the issuer's GID", func(f *ib.InformInfoFields) { f.GID, f.LIDBegin = mustGID("fe80::5"), 0 }, true},
		{"of another's GID", func(f *ib.InformInfoFields) { f.GID = mustGID("fe80::6") }, false},
		{"of the issuer's LID", func(f *ib.InformInfoFields) { f.LIDBegin = 5 }, true},
		{"of some LIDs", func(f *ib.InformInfoFields) { f.LIDBegin, f.LIDEnd = 3, 5 }, true},
		{"of other LIDs", func(f *ib.InformInfoFields) { f.LIDBegin, f.LIDEnd = 6, 9 }, false},
	} {
		s := subscription{info: ib.InformInfoFields{
			LIDBegin: ib.InformAllLIDs, IsGeneric: true, Type: ib.InformAllTypes, Trap: 66, Producer: ib.InformAllProducers,
		}}
		c.change(&s.info)
		if s.wants(&notice) != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
}

// TestSubscriptionsBounded subscribes to more than a port may, and ends some.
func TestSubscriptionsBounded(t *testing.T) {
	r := newJoinRig(t)
	for i := range uint16(subscriptionsPerPort) {
		if status := r.b.subscribe(t, ib.TrapGroupCreated+i, nil); status != 0 {
			t.Fatalf("subscription %d: status %#x", i, status)
		}
	}
	end := func(f *ib.InformInfoFields) { f.Subscribe = false }
	for _, c := range []struct {
		name   string
		trap   uint16
		change func(*ib.InformInfoFields)
		want   uint16
	}{
		{"one more", 1000, nil, ib.SAStatusNoResources},
		{"one that exists", ib.TrapGroupCreated, nil, 0},
		{"to a port that does not exist", 1000, func(f *ib.InformInfoFields) { f.GID = mustGID("fe80::99") }, ib.SAStatusRequestInvalid},
		{"end one that does not exist", 2000, end, ib.SAStatusRequestInvalid},
		{"end, but with another response time", 66, func(f *ib.InformInfoFields) { f.Subscribe, f.RespTime = false, 9 }, ib.SAStatusRequestInvalid},
		{"end", 67, end, 0},
		{"end without a QPN", 68, func(f *ib.InformInfoFields) { f.Subscribe, f.QPN = false, 0 }, 0},
		{"end it again", 68, end, ib.SAStatusRequestInvalid},
		{"others in their place", 1000, func(f *ib.InformInfoFields) { f.GID = mustGID("fe80::a") }, 0},
		{"the same, with LIDs that mean nothing", 1000, func(f *ib.InformInfoFields) { f.GID, f.LIDBegin = mustGID("fe80::a"), 7 }, 0},
		{"and another", 1001, nil, 0},
		{"one too many", 1002, nil, ib.SAStatusNoResources},
	} {
		if status := r.b.subscribe(t, c.trap, c.change); status != c.want {
			t.Errorf("%s: status %#x, want %#x", c.name, status, c.want)
		}
	}
	b := make([]byte, ib.InformInfoLen)
	ib.PutInformInfo(b, ib.InformInfoFields{Subscribe: true, LIDBegin: ib.InformAllLIDs})
	b[informSubscribeByte] = 2
	if status, _ := r.b.query(t, ib.MethodSet, ib.AttrInformInfo, 0, b); status != ib.SAStatusRequestInvalid {
		t.Errorf("neither to begin nor to end: status %#x", status)
	}
}

// TestReportsBounded makes more reports wait for one port than may; then the port goes, and all its state with it.
func TestReportsBounded(t *testing.T) {
	r := newJoinRig(t)
	slow := func(f *ib.InformInfoFields) { f.RespTime = 31 }
	if status := r.b.subscribe(t, ib.TrapGroupCreated, slow); status != 0 {
		t.Fatalf("status %#x", status)
	}
	const more = 10
	for i := range reportsPerPort + more {
		if status, _ := r.a.create(t, mustGID(fmt.Sprintf("ff12::1:%x", i)), 1); status != 0 {
			t.Fatalf("status %#x", status)
		}
	}
	c := r.fabric.SA().Reports()
	if c.Reports != reportsPerPort || c.NoRoom != more || c.Waiting != reportsPerPort {
		t.Errorf("%+v; want %d, and no room for %d", c, reportsPerPort, more)
	}
	r.b.hca.Close()
	if c = r.fabric.SA().Reports(); c.Gone != reportsPerPort || c.Waiting != 0 || r.fabric.SA().Subscriptions() != 0 {
		t.Errorf("when the port has gone: %+v, %d subscriptions", c, r.fabric.SA().Subscriptions())
	}
}
