// SPDX-License-Identifier: Apache-2.0

package partitions

import (
	"slices"
	"testing"

	"causeway/ibside/ib"
	"causeway/tables"
)

// TestPartitions checks that a number stays its P_Key's through changes of the configuration.
func TestPartitions(t *testing.T) {
	p := New(ib.PKeyDefault)
	if p.Several() || p.Number(0x8001) != 0 || p.PKey(0) != ib.PKeyDefault {
		t.Errorf("at the start: %+v", p)
	}
	if err := p.Use([]ib.PKey{0x8001, ib.PKeyDefault, 0x8002, 0x8001}); err != nil || p.Number(0x8001) != 1 || p.Number(0x8002) != 2 || !p.Several() {
		t.Errorf("two more: %+v, %v", p, err)
	}
	if err := p.Use([]ib.PKey{0x0003, 0x8002}); err != nil || p.Number(0x8002) != 2 || p.Number(0x0003) != 3 || p.PKey(1) != 0x8001 {
		t.Errorf("one replaced: %+v, %v", p, err)
	}
	if used := p.Used(); !slices.Equal(used, []ib.PKey{ib.PKeyDefault, 0x8002, 0x0003}) {
		t.Errorf("used: %v", used)
	}
	for k, want := range map[ib.PKey]int{0x7fff: 0, 0x8002: 2, 0x0002: 2, 0x8003: 3, 0x0003: -1, 0x8001: -1} {
		if n, ok := p.Matching(k); ok != (want >= 0) || ok && int(n) != want {
			t.Errorf("%v matches %d, %v, want %d", k, n, ok, want)
		}
	}
	if missing := p.Missing([]ib.PKey{0x8002, 0x8003}); !slices.Equal(missing, []ib.PKey{ib.PKeyDefault, 0x0003}) {
		t.Errorf("missing: %v", missing)
	}
}

// TestPartitionsFull checks that P_Keys for which there are no numbers change nothing.
func TestPartitionsFull(t *testing.T) {
	p, many := New(ib.PKeyDefault), []ib.PKey{}
	for i := range tables.MaxPartitions {
		many = append(many, ib.PKey(0x8001+i))
	}
	if err := p.Use(many[1:]); err != nil {
		t.Fatal(err)
	}
	const want = "manage: with P_Key 0x8001 the bridge would have used 9 since it started, more than 8: restart it"
	for _, try := range []func([]ib.PKey) error{p.Check, p.Use} {
		if err := try(many[:2]); err == nil || err.Error() != want || !slices.Equal(p.Used()[1:], many[1:]) {
			t.Errorf("one too many: %v, %v, want %s", err, p.Used(), want)
		}
	}
	if err := p.Check(many[2:4]); err != nil {
		t.Errorf("fewer: %v", err)
	}
}
