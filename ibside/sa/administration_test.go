// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

// administration is a port's administration with the port's client.
type administration struct {
	*sa.Administration
	client *sa.Client
}

func newAdministration(t *testing.T, s *opensmtest.Subnet) administration {
	t.Helper()
	port, err := opensmtest.DialIbsim(s.Name, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	c := sa.NewClient(port, sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 2})
	follows := func(ib.MCMemberFields, func(ibside.Membership)) error { return nil }
	cfg := sa.RegistrarConfig{Refresh: time.Hour, Watch: time.Hour}
	return administration{sa.NewAdministration(c, follows, cfg, slog.New(slog.DiscardHandler)), c}
}

// crash ends an administration, and leaves its registrations at the SA.
func (a administration) crash() {
	_ = a.client.Close() // the withdrawals fail
	_ = a.Close()
}

// TestAdministrationAliases fills the port's GUID table: entries of others stay, a full table gives an error, and
// entries left over from before are found again.
func TestAdministrationAliases(t *testing.T) {
	s := opensmtest.Start(t)
	s.Manage("smhost")
	d := newAdministration(t, s)
	const foreign, room = ib.GUID(0xf0), 30 // of 32 entries, one is the port's own, and one another's
	if _, err := d.client.SetAlias(t.Context(), 2, foreign); err != nil {
		t.Fatal(err)
	}
	for i := range room {
		if err := d.SetAlias(t.Context(), ib.GUID(0x100+i)); err != nil {
			t.Fatalf("alias %d: %v", i, err)
		}
	}
	if err := d.SetAlias(t.Context(), 0x200); !errors.Is(err, ibside.ErrNoAlias) {
		t.Errorf("one more: %v", err)
	}
	if err := d.DropAlias(t.Context(), 0x100); err != nil {
		t.Error(err)
	}
	if err := d.SetAlias(t.Context(), 0x200); err != nil {
		t.Errorf("where one was dropped: %v", err)
	}
	if guids, err := d.client.GUIDs(t.Context(), 0); err != nil || guids[2] != foreign || guids[1] != 0x200 {
		t.Errorf("the table begins with %v, %v", guids, err)
	}
	d.crash()
	again := newAdministration(t, s)
	defer again.crash()
	if err := again.SetAlias(t.Context(), 0x110); err != nil {
		t.Errorf("what was left over: %v", err)
	}
	if err := again.SetAlias(t.Context(), 0x201); !errors.Is(err, ibside.ErrNoAlias) {
		t.Errorf("one more, after what was left over: %v", err)
	}
}

// testPortsComeAndGo checks that management is told which port came or went, and after an event that all LIDs are
// stale.
func testPortsComeAndGo(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	if _, err := other.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil {
		t.Fatal(err)
	}
	a := sa.NewAdministration(c, nil, sa.RegistrarConfig{Refresh: time.Hour, Watch: time.Hour}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = a.Close() })
	for subscribed := false; !subscribed; { // it lists the groups when it has subscribed
		select {
		case n := <-a.Notices():
			subscribed = n.MGID == testMGID
		case <-time.After(time.Minute):
			t.Fatal("no notice of the group that is there")
		}
	}
	told := func(of func(ibside.Renewals) bool) bool {
		for {
			select {
			case <-a.Changed():
				if r := a.Renewed(); of(r) {
					return r.Paths
				}
			case <-time.After(time.Minute):
				return false
			}
		}
	}
	l := s.unlinkable(t, "hostb")
	about := func(r ibside.Renewals) bool { return slices.Contains(r.Ports, l.gid) && !r.LIDs }
	_ = a.Renewed() // of before
	l.unlink()
	if !told(about) {
		t.Error("not told that a port went")
	}
	l.relink()
	if !told(about) {
		t.Error("not told that a port came")
	}
	a.Event(sa.SMChange)
	if !told(func(r ibside.Renewals) bool { return r.LIDs }) {
		t.Error("LIDs are not stale after an event")
	}
}
