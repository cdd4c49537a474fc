// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/hex"
	"slices"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestBridgeData has records byte by byte: those of bridges in no fleet are as they were before there were fleets, and
// what a member adds was zero there.
func TestBridgeData(t *testing.T) {
	macs := make([][6]byte, bridgeMACs)
	for i := range macs {
		macs[i] = [6]byte{2, 5: byte(i + 1)}
	}
	const (
		head = "0000000000000063000502000000"
		mac1 = "020000000001"
		four = mac1 + "020000000002020000000003020000000004"
		six  = four + "020000000005020000000006"
		of   = "0102030405060708" + "1112131415161718"
	)
	fleet := ibside.Fleet{Name: 0x0102030405060708, Founded: 0x1112131415161718}
	gid := ib.GID{15: 9}
	for _, c := range []struct {
		name  string
		x     ibside.Bridge
		start string // of the data, then zeros
	}{
		{"one", ibside.Bridge{MACs: macs[:1]}, "0101" + head + mac1},
		{"six", ibside.Bridge{MACs: macs}, "0106" + head + six},
		{"of a fleet, one", ibside.Bridge{MACs: macs[:1], Fleet: fleet}, "0101" + head + mac1 + "000000000000000000000000000000000000" + of},
		{"of a fleet, four", ibside.Bridge{MACs: macs[:fleetMACs], Fleet: fleet}, "0104" + head + four + of},
	} {
		c.x.Instance, c.x.GID, c.x.LID, c.x.LMC = 99, gid, 5, 2
		want, err := hex.DecodeString(c.start)
		if err != nil {
			t.Fatal(err)
		}
		var f ib.ServiceRecordFields
		f.GID, f.Data = gid, bridgeData(&c.x)
		if got := f.Data[:]; !slices.Equal(got, append(want, make([]byte, ib.ServiceDataLen-len(want))...)) {
			t.Errorf("%s: %x, want %s", c.name, got, c.start)
		}
		if got := bridgeOf(&f); got.Instance != 99 || got.LID != 5 || got.LMC != 2 || got.Fleet != c.x.Fleet || !slices.Equal(got.MACs, c.x.MACs) {
			t.Errorf("%s: read as %+v", c.name, got)
		}
	}
}
