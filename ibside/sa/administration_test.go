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

func newAdministration(t *testing.T, s *opensmtest.Subnet, host string) administration {
	t.Helper()
	port, err := opensmtest.DialIbsim(s.Name, host)
	if err != nil {
		t.Fatal(err)
	}
	c := sa.NewClient(port, sa.Config{SMKey: 0, FirstWait: 50 * time.Millisecond, Tries: 2})
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
	d := newAdministration(t, s, "bridge")
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
	again := newAdministration(t, s, "bridge")
	defer again.crash()
	if err := again.SetAlias(t.Context(), 0x110); err != nil {
		t.Errorf("what was left over: %v", err)
	}
	if err := again.SetAlias(t.Context(), 0x201); !errors.Is(err, ibside.ErrNoAlias) {
		t.Errorf("one more, after what was left over: %v", err)
	}
}

// announce has a port be a bridge's alone: the simulator carries no longer list of them.
func (a administration) announce(t *testing.T, own ibside.Bridge) {
	t.Helper()
	others, err := a.client.Services(t.Context(), "Causeway bridge")
	for i := range others {
		err = errors.Join(err, a.client.Withdraw(t.Context(), others[i]))
	}
	if err := errors.Join(err, a.Announce(t.Context(), own)); err != nil {
		t.Fatal(err)
	}
}

// TestAliasesOfFellows has a bridge set an alias that another one of its fleet has, and that has died with it: it gets that after
// a while. It gets none of a port that is no bridge, or one of another fleet.
func TestAliasesOfFellows(t *testing.T) {
	t.Parallel()
	s := opensmtest.Start(t)
	s.Manage("smhost")
	one, two, node := newAdministration(t, s, "hosta"), newAdministration(t, s, "hostb"), newAdministration(t, s, "bridge")
	defer two.crash()
	defer node.crash()
	fleet := ibside.Fleet{Name: 1, Founded: 2}
	two.announce(t, ibside.Bridge{Instance: 2, Fleet: fleet})
	one.announce(t, ibside.Bridge{Instance: 1, Fleet: fleet})
	const before, alias, nodes = ib.GUID(0x100), ib.GUID(0x101), ib.GUID(0x102)
	for _, err := range []error{one.SetAlias(t.Context(), before), one.SetAlias(t.Context(), alias), node.SetAlias(t.Context(), nodes)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one.crash()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		nodes, err := two.SetAlias(t.Context(), nodes), two.SetAlias(t.Context(), alias)
		passed := time.Since(begun)
		if !errors.Is(nodes, sa.ErrAliasTaken) {
			t.Fatalf("the alias of a node, after %v: %v", passed, nodes)
		}
		if err == nil && passed >= 2*time.Second {
			break
		}
		if !errors.Is(err, sa.ErrAliasTaken) || passed > 10*time.Second {
			t.Fatalf("the alias of one that has died, after %v: %v", passed, err)
		}
	}
	node.announce(t, ibside.Bridge{Instance: 3, Fleet: ibside.Fleet{Name: fleet.Name, Founded: 3}})
	if err := two.SetAlias(t.Context(), nodes); !errors.Is(err, sa.ErrAliasTaken) {
		t.Errorf("the alias of a bridge of another fleet: %v", err)
	}
	here, err := two.client.PortState()
	if err != nil {
		t.Fatal(err)
	}
	for guid, own := range map[ib.GUID]bool{before: false, alias: true, nodes: false} {
		path, err := node.client.Path(t.Context(), ib.GIDFromGUID(here.GID.Prefix(), guid))
		if err != nil || (path.DLID == here.LID) != own {
			t.Errorf("the path to %v leads to LID %v, %v", guid, path.DLID, err)
		}
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
