// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// awaitNotice waits for a notice of a trap, and skips others.
func awaitNotice(t *testing.T, c *sa.Client, trap uint16, about ib.GID) ib.NoticeFields {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case n := <-c.Notices():
			if n.Trap == trap && n.GID() == about {
				return n
			}
		case <-end:
			t.Fatalf("no notice of trap %d about %v; %+v", trap, about, c.Stats())
		}
	}
}

func testNotices(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	for _, trap := range []uint16{
		ib.TrapGroupCreated, ib.TrapGroupDeleted, ib.TrapGIDInService, ib.TrapGIDOutOfService, ib.TrapLinkState, ib.TrapCapability,
	} {
		for range 2 {
			if err := c.Subscribe(t.Context(), trap); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := other.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil {
		t.Fatal(err)
	}
	sm, _ := c.PortState()
	if n := awaitNotice(t, c, ib.TrapGroupCreated, testMGID); n.IssuerLID != sm.SMLID || !n.IsGeneric {
		t.Errorf("group created: %+v", n)
	}
	if err := other.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Fatal(err)
	}
	awaitNotice(t, c, ib.TrapGroupDeleted, testMGID)

	third := s.unlinkable(t, "hostb")
	third.unlink()
	if s.subnet != nil {
		if n := awaitNotice(t, c, ib.TrapLinkState, ib.GID{}); !n.LID().IsUnicast() {
			t.Errorf("a link went: %+v", n)
		}
	}
	awaitNotice(t, c, ib.TrapGIDOutOfService, third.gid)
	third.relink()
	awaitNotice(t, c, ib.TrapGIDInService, third.gid)

	if s.subnet == nil {
		return
	}
	s.subnet.StartManager("standby") // a port with an SM sets a capability bit
	if n := awaitNotice(t, c, ib.TrapCapability, ib.GID{}); !n.LID().IsUnicast() || n.LID() == sm.SMLID {
		t.Errorf("a capability came: %+v", n)
	}
}

// testUnsubscribe also checks that the SA receives the answers to its reports: it would repeat them otherwise.
func testUnsubscribe(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{Notices: 2}), s.Client("hosta", sa.Config{})
	make3 := func() {
		t.Helper()
		for _, mgid := range []string{"ff12::1", "ff12::2", "ff12::3"} {
			if _, err := other.Join(t.Context(), group(gid(mgid), ib.JoinFull)); err != nil {
				t.Fatal(err)
			}
			if err := other.Leave(t.Context(), gid(mgid), ib.GID{}, ib.JoinFull); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Subscribe(t.Context(), ib.TrapGroupCreated); err != nil {
		t.Fatal(err)
	}
	make3()
	awaitStats(t, c, "three notices, for two of which there is room", func(s sa.Stats) bool {
		return s.Notices == 2 && s.NoticesDropped == 1
	})
	if err := c.Unsubscribe(t.Context(), ib.TrapGroupCreated); err != nil {
		t.Fatal(err)
	}
	if err := c.Unsubscribe(t.Context(), ib.TrapGroupCreated); !errors.Is(err, sa.RequestInvalid) && !errors.Is(err, sa.NoRecords) {
		t.Errorf("unsubscribe again: %v", err)
	}
	make3()
	time.Sleep(1500 * time.Millisecond) // longer than the SA waits for an answer
	if s := c.Stats(); s.Notices != 2 || s.NoticesDropped != 1 || s.Repeated != 0 {
		t.Errorf("notices without a subscription, or repeated ones: %+v", s)
	}
}

// testUselessSubscriptions repeats a subscription, and ends some that do not exist.
func testUselessSubscriptions(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	if err := c.Unsubscribe(t.Context(), ib.TrapGroupDeleted); !errors.Is(err, sa.RequestInvalid) {
		t.Errorf("unsubscribe without a subscription: %v", err)
	}
	for range 3 {
		if err := c.Subscribe(t.Context(), ib.TrapGroupDeleted); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Unsubscribe(t.Context(), ib.TrapGroupDeleted); !errors.Is(err, sa.RequestInvalid) {
		t.Errorf("unsubscribe from another port's subscription: %v", err)
	}
	if _, err := c.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil {
		t.Fatal(err)
	}
	if err := c.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Fatal(err)
	}
	awaitNotice(t, c, ib.TrapGroupDeleted, testMGID)
	time.Sleep(100 * time.Millisecond)
	if s := c.Stats(); s.Notices != 1 || s.Repeated != 0 {
		t.Errorf("of one group, subscribed to three times: %+v", s)
	}
}

func awaitStats(t *testing.T, c *sa.Client, what string, ok func(sa.Stats) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(c.Stats()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within five seconds: %s; %+v", what, c.Stats())
		}
	}
}

// TestNoticeFirst checks that what tells of a port is there before the first answer that tells of it: whoever has taken both knows
// whether an answer is newer than the notice.
func TestNoticeFirst(t *testing.T) {
	s := newFabricSite(t, fabric.Config{})
	c, hca := s.attach("bridge", sa.Config{})
	follows := func(ib.MCMemberFields, func(ibside.Membership)) error { return nil }
	a := sa.NewAdministration(c, follows, sa.RegistrarConfig{}, slog.New(slog.DiscardHandler))
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	for s.fabric.SA().Subscriptions() < 4 {
		time.Sleep(time.Millisecond)
	}
	for i := range 200 {
		guid := ib.GUID(0x1000 + i)
		was := make(chan error)
		go func() {
			port, err := s.fabric.Attach(fabric.PortConfig{Name: "node", GUID: guid})
			if err == nil {
				defer port.Close()
			}
			was <- err
			<-was
		}()
		gid := ib.GIDFromGUID(hca.Info().GID.Prefix(), guid)
		for {
			_, err := a.Path(t.Context(), gid, ib.PKeyDefault)
			if err == nil {
				break
			}
			if !errors.Is(err, ibside.ErrNoPath) {
				t.Fatal(err)
			}
		}
		if r := a.Renewed(); !slices.Contains(r.Ports, gid) {
			t.Fatalf("port %d: there is a path, and no notice: %+v", i, r)
		}
		if err := <-was; err != nil {
			t.Fatal(err)
		}
		close(was)
	}
}
