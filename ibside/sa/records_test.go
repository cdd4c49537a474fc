// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"log/slog"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

func testPath(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	here, _ := c.PortState()
	there, _ := other.PortState()
	path, err := c.Path(t.Context(), there.GID)
	if err != nil || path.DLID != there.LID || path.SLID != here.LID || path.MTU != ib.MTU2048 || !path.Reversible {
		t.Errorf("by GIDs: %+v, %v", path, err)
	}
	path, err = c.PathWith(t.Context(), ib.PathDLID|ib.PathSLID|ib.PathNumbPath, ib.PathFields{SLID: here.LID, DLID: there.LID, NumbPath: 1})
	if err != nil || path.DGID != there.GID || path.SGID != here.GID {
		t.Errorf("by LIDs: %+v, %v", path, err)
	}
	if _, err := c.Path(t.Context(), gid("fe80::99")); !errors.Is(err, sa.NoRecords) {
		t.Errorf("to an unknown GID: %v", err)
	}
	if _, err := c.Path(t.Context(), gid("ff12::99")); !errors.Is(err, sa.NoRecords) && !errors.Is(err, sa.InvalidGID) {
		t.Errorf("to an unknown group: %v", err)
	}
	if lmc, err := c.LMC(t.Context(), there.LID); err != nil || lmc != 0 {
		t.Errorf("LMC %d, %v", lmc, err)
	}
	if _, err := c.LMC(t.Context(), 0x1234); !errors.Is(err, sa.NoRecords) {
		t.Errorf("LMC of a LID that nobody has: %v", err)
	}
	if holder, err := c.Holder(t.Context(), there.LID); err != nil || holder != there.GID {
		t.Errorf("LID %v is %v's, %v", there.LID, holder, err)
	}
	a := sa.NewAdministration(c, nil, sa.RegistrarConfig{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = a.Close() })
	for _, nobodys := range []ib.LID{0x1234, 0xbfff} {
		if holder, err := a.Holder(t.Context(), nobodys); !errors.Is(err, ibside.ErrNoPath) {
			t.Errorf("LID %v, which nobody has, is %v's, %v", nobodys, holder, err)
		}
	}
	mask := ib.PathSGID | ib.PathDGID | ib.PathPKey | ib.PathNumbPath
	_, err = c.PathWith(t.Context(), mask, ib.PathFields{SGID: here.GID, DGID: there.GID, PKey: 0x8001, NumbPath: 1})
	if !errors.Is(err, sa.NoRecords) {
		t.Errorf("in a foreign partition: %v", err)
	}
}

// TestTruncated asks opensm for more groups than a MAD has records. The simulator brings the first MAD only.
func TestTruncated(t *testing.T) {
	s := opensmtest.Start(t)
	s.Manage("smhost")
	c := s.Client("bridge", sa.Config{})
	for _, mgid := range []string{"ff12::1", "ff12::2", "ff12::3", "ff12::4"} {
		if _, err := c.Join(t.Context(), group(gid(mgid), ib.JoinFull)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Groups(t.Context(), 0, ib.MCMemberFields{}); !errors.Is(err, opensmtest.ErrTruncated) {
		t.Errorf("%v", err)
	}
}

// testLMC asks for the path to a port that has four LIDs.
func testLMC(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	there, _ := other.PortState()
	if there.LMC != 2 || there.LID != there.LID.Base(2) {
		t.Fatalf("port %+v", there)
	}
	for i := range ib.LID(4) {
		if lmc, err := c.LMC(t.Context(), there.LID+i); err != nil || lmc != 2 {
			t.Errorf("of LID %v: LMC %d, %v", there.LID+i, lmc, err)
		}
		own, _ := c.PortState()
		if holder, err := c.Holder(t.Context(), there.LID+i); err != nil || holder != there.GID {
			t.Errorf("LID %v is %v's, %v", there.LID+i, holder, err)
		}
		path, err := c.PathWith(t.Context(), ib.PathDLID|ib.PathSGID|ib.PathReversible|ib.PathNumbPath,
			ib.PathFields{DLID: there.LID + i, SGID: own.GID, Reversible: true, NumbPath: 1})
		if err != nil || path.DLID != there.LID+i || path.DGID != there.GID {
			t.Errorf("to LID %v: %+v, %v", there.LID+i, path, err)
		}
	}
	a := sa.NewAdministration(c, nil, sa.RegistrarConfig{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = a.Close() })
	path, err := a.Path(t.Context(), there.GID, 0)
	if err != nil || path.LID.Base(2) != there.LID || path.LMC != 2 || path.MTU != ib.MTU2048 || path.Rate.Mbps() == 0 || path.GRH {
		t.Errorf("path %+v, %v", path, err)
	}
	if _, err := a.Path(t.Context(), gid("fe80::99"), 0); !errors.Is(err, ibside.ErrNoPath) || !errors.Is(err, sa.NoRecords) {
		t.Errorf("path to nobody: %v", err)
	}
}

// TestLMC makes opensm give each port eight LIDs.
func TestLMC(t *testing.T) {
	s := opensmtest.Start(t)
	s.Manage("smhost", "-l", "3")
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	here, _ := c.PortState()
	there, _ := other.PortState()
	if here.LMC != 3 || there.LMC != 3 || there.LID%8 != 0 {
		t.Fatalf("ports: %+v, %+v", here, there)
	}
	path, err := c.PathWith(t.Context(), ib.PathSGID|ib.PathDLID|ib.PathNumbPath,
		ib.PathFields{SGID: here.GID, DLID: there.LID + 5, NumbPath: 1})
	if err != nil || path.DGID != there.GID || path.DLID != there.LID+5 {
		t.Errorf("to the sixth LID of a port: %+v, %v", path, err)
	}
	if m, err := c.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil || !m.MLID.IsMulticast() {
		t.Errorf("join: %+v, %v", m, err)
	}
}

func testAliases(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	here, _ := c.PortState()
	const alias ib.GUID = 0x02005efffe000001 // the EUI-64 of some MAC address
	for _, r := range []struct {
		name  string
		who   *sa.Client
		index int
		guid  ib.GUID
		want  error
	}{
		{"a RoCE host's", c, 1, alias, nil},
		{"again", c, 1, alias, nil},
		{"the SA's choice", c, 2, 0, nil},
		{"the last", c, 31, alias + 31, nil},
		{"the port's own", c, 0, alias + 1, sa.RequestInvalid},
		{"beyond the table", c, 32, alias + 2, sa.NoRecords},
		{"another port's", other, 1, alias, sa.ErrAliasTaken},
	} {
		got, err := r.who.SetAlias(t.Context(), r.index, r.guid)
		if !errors.Is(err, r.want) || err == nil && (got == 0 || r.guid != 0 && got != r.guid) {
			t.Errorf("%s: %v, %v; want %v", r.name, got, err, r.want)
		}
	}
	guids, err := c.GUIDs(t.Context(), 0)
	if err != nil || guids[1] != alias || guids[2] == 0 || guids[3] != 0 {
		t.Errorf("block 0: %v, %v", guids, err)
	}
	aliasGID := ib.GIDFromGUID(here.GID.Prefix(), alias)
	if path, err := other.Path(t.Context(), aliasGID); err != nil || path.DLID != here.LID {
		t.Errorf("path to the alias: %+v, %v", path, err)
	}
	f := group(testMGID, ib.JoinFull)
	f.PortGID = aliasGID
	if m, err := c.Join(t.Context(), f); err != nil || m.PortGID != aliasGID {
		t.Errorf("the alias joins: %+v, %v", m, err)
	}
	if err := c.DeleteAlias(t.Context(), 1); !errors.Is(err, sa.Denied) {
		t.Errorf("delete a group's member: %v", err)
	}
	if err := c.Leave(t.Context(), testMGID, aliasGID, ib.JoinFull); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAlias(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if _, err := other.Path(t.Context(), aliasGID); !errors.Is(err, sa.NoRecords) && !errors.Is(err, sa.InvalidGID) {
		t.Errorf("path to an alias that is gone: %v", err)
	}
}
