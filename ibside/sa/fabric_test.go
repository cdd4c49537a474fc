// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

// newFabricClient attaches to the subnet in software, whose administrator is another than opensm.
func newFabricClient(t *testing.T, f *fabric.Fabric, guid ib.GUID) (*sa.Client, *fabric.HCA) {
	t.Helper()
	port, err := f.Attach(fabric.PortConfig{Name: guid.String(), GUID: guid})
	if err != nil {
		t.Fatal(err)
	}
	hca := fabric.NewHCA(port)
	var transport sa.Transport = fabric.NewMADPort(hca, ib.ClassSA)
	c := sa.NewClient(transport, sa.Config{})
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), hca.Close()); err != nil {
			t.Error(err)
		}
		opensmtest.CheckBooks(t, guid.String(), c.Stats())
	})
	return c, hca
}

// fabricMGID is none that only an administrator gives, unlike testMGID: here it minds.
var fabricMGID = gid("ff12::5")

func TestFabric(t *testing.T) {
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	c, _ := newFabricClient(t, f, 0xa)
	other, hca := newFabricClient(t, f, 0xb)
	here, _ := c.PortState()
	there, _ := other.PortState()
	first, err := c.Join(t.Context(), group(fabricMGID, ib.JoinFull))
	if err != nil || !first.MLID.IsMulticast() || first.PortGID != here.GID {
		t.Fatalf("join: %+v, %v", first, err)
	}
	if again, err := other.Join(t.Context(), group(fabricMGID, ib.JoinSendOnly)); err != nil || again.MLID != first.MLID {
		t.Errorf("another joins: %+v, %v", again, err)
	}
	if path, err := c.Path(t.Context(), there.GID); err != nil || path.DLID != there.LID {
		t.Errorf("path: %+v, %v", path, err)
	}
	if err := c.Leave(t.Context(), fabricMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Error(err)
	}
	if _, err := other.Group(t.Context(), fabricMGID); !errors.Is(err, sa.NoRecords) {
		t.Errorf("a group without full member: %v", err)
	}
	var refused sa.Refusal
	if _, err := c.SetAlias(t.Context(), 1, 0); !errors.As(err, &refused) || refused != 0x000c {
		t.Errorf("an alias, which this administrator does not know: %v", err)
	}
	if err := hca.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.Group(t.Context(), fabricMGID); !errors.Is(err, sa.ErrClosed) && !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("after the adapter was closed: %v", err)
	}
}
