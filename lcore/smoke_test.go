// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const exampleV4 = `0200 0000 0002 0200 0000 0001 0800 4562 003c 0000 4000 4011 2639 0a0a 0001 0a0a
	0002 e341 12b7 0028 0000 6470 ffff 0000 0123 0000 0001 0123 4567 0000 0456 4865
	6c6c 6f00 0000 6ef8 9aab`

func TestSmoke(t *testing.T) {
	s := newStand(t, benchConfig())
	s.populate()
	s.fromRoCE(unhex(t, exampleV4))
	got := s.toIB()
	if len(got) != 1 || !bytes.Equal(got[0].Payload, []byte("Hello")) {
		t.Fatalf("%+v %+v", got, s.bench.Counters().Direction)
	}
	t.Logf("%+v", got[0])
}
