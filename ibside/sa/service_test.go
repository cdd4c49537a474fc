// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"bytes"
	"errors"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

func serviceOf(name string, data byte) ib.ServiceRecordFields {
	return ib.ServiceRecordFields{ID: 0x0200000000000001, PKey: 0xffff, Lease: 60, Name: ib.ServiceNameOf(name), Data: [ib.ServiceDataLen]byte{data}}
}

// testServices offers services, changes and withdraws them.
func testServices(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	here, _ := c.PortState()
	for _, r := range []struct {
		name string
		who  *sa.Client
		f    ib.ServiceRecordFields
	}{
		{"first", c, serviceOf("a bridge", 1)}, {"again", c, serviceOf("a bridge", 1)},
		{"changed", c, serviceOf("a bridge", 2)}, {"another's", other, serviceOf("a bridge", 3)},
	} {
		const compared = 56 // opensm on ibsim writes two bytes of its own behind these
		got, err := r.who.Offer(t.Context(), r.f)
		if err != nil || got.ID != r.f.ID || !bytes.Equal(got.Data[:compared], r.f.Data[:compared]) || got.Name != r.f.Name {
			t.Errorf("%s: %+v, %v", r.name, got, err)
		}
	}
	unnamed := serviceOf("a bridge", 1)
	unnamed.ID = 7
	if err := c.Withdraw(t.Context(), unnamed); !errors.Is(err, sa.NoRecords) {
		t.Errorf("withdraw what is not offered: %v", err)
	}
	mine := serviceOf("", 0)
	mine.GID = here.GID
	if err := c.Withdraw(t.Context(), mine); err != nil {
		t.Error(err)
	}
	if err := c.Withdraw(t.Context(), mine); !errors.Is(err, sa.NoRecords) {
		t.Errorf("withdraw twice: %v", err)
	}
}

// TestFabricServices lists services; ibsim carries no tables.
func TestFabricServices(t *testing.T) {
	s := newFabricSite(t, fabric.Config{})
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	if all, err := c.Services(t.Context(), "a bridge"); err != nil || len(all) != 0 {
		t.Fatalf("at first: %+v, %v", all, err)
	}
	for i, who := range []*sa.Client{c, other} {
		if _, err := who.Offer(t.Context(), serviceOf("a bridge", byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	short := serviceOf("another thing", 9)
	short.ID++
	if _, err := other.Offer(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	here, _ := c.PortState()
	all, err := other.Services(t.Context(), "a bridge")
	if err != nil || len(all) != 2 || all[0].GID != here.GID || all[0].Data[0] != 0 || all[1].Data[0] != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	anothers := serviceOf("a bridge", 5)
	anothers.GID = here.GID
	if _, err := other.Offer(t.Context(), anothers); !errors.Is(err, sa.RequestInvalid) {
		t.Errorf("for another port: %v", err)
	}
}
