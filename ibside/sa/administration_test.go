// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"log/slog"
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
