// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"causeway/ibside/ib"
)

// A subscription to "group created", written down by hand from the layout.
const informGroups = "00000000000000000000000000000000" + "ffff" + "0000" + "0000" + "01" + "01" + "ffff" + "0042" +
	"000001" + "12" + "00000004"

func TestInformInfo(t *testing.T) {
	want, err := hex.DecodeString(informGroups)
	if err != nil {
		t.Fatal(err)
	}
	fields := ib.InformInfoFields{
		LIDBegin: ib.InformAllLIDs, IsGeneric: true, Subscribe: true, Type: ib.InformAllTypes, Trap: ib.TrapGroupCreated,
		QPN: ib.QP1, RespTime: 18, Producer: ib.ProducerSM,
	}
	b := bytes.Repeat([]byte{0xee}, ib.InformInfoLen)
	if got := ib.PutInformInfo(b, fields); !bytes.Equal(got, want) {
		t.Errorf("Put wrote %x, want %x", got, want)
	}
	h, ok := ib.AsInformInfo(want)
	if !ok || h.Fields() != fields {
		t.Errorf("read %+v, want %+v", h.Fields(), fields)
	}
	if _, ok := ib.AsInformInfo(want[:ib.InformInfoLen-1]); ok {
		t.Error("a short one was taken")
	}
}

func TestInformInfoRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := ib.InformInfoFields{
			GID:       ib.GID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid")),
			LIDBegin:  ib.LID(rapid.Uint16().Draw(t, "begin")),
			LIDEnd:    ib.LID(rapid.Uint16().Draw(t, "end")),
			IsGeneric: rapid.Bool().Draw(t, "generic"), Subscribe: rapid.Bool().Draw(t, "subscribe"),
			Type: rapid.Uint16().Draw(t, "type"), Trap: rapid.Uint16().Draw(t, "trap"),
			QPN:      ib.QPN(rapid.Uint32Max(0xffffff).Draw(t, "qpn")),
			RespTime: rapid.Uint8Max(31).Draw(t, "time"), Producer: rapid.Uint32Max(0xffffff).Draw(t, "producer"),
		}
		b := make([]byte, ib.InformInfoLen)
		if got := ib.PutInformInfo(b, f).Fields(); got != f {
			t.Fatalf("wrote %+v, read %+v", f, got)
		}
	})
}
