// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"

	"causeway/tables"
)

// A packet that crosses, either way, marks its proxy QP as used; one that is dropped does not.
func TestCrossingMarksProxyQP(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, step := range []struct {
		name  string
		cross func()
		want  [2]bool // to InfiniBand, to RoCE
	}{
		{"when it is made", func() {}, [2]bool{true, false}},
		{"when nothing crosses", func() {}, [2]bool{}},
		{"towards InfiniBand", func() { s.fromRoCE(v4()) }, [2]bool{true, false}},
		{"a frame that is dropped", func() { s.fromRoCE(v4(dest("10.10.0.77"))) }, [2]bool{}},
		{"a message of a stranger", func() { s.fromIB(received(fromNode(mustGID("fe80::99"), nodeLID))) }, [2]bool{}},
		{"one by LID", func() { s.fromIB(received(noGRH, func(m *message) { m.SLID = 99 })) }, [2]bool{}},
		{"towards RoCE", func() { s.fromIB(received()) }, [2]bool{false, true}},
		{"towards RoCE, without a GRH", func() { s.fromIB(received(noGRH)) }, [2]bool{false, true}},
	} {
		step.cross()
		toIB, toRoCE := s.tables.ProxyQPs.TakeUsed(tables.HostQP{Host: hostIP, HostQPN: hostQPN})
		if got := [2]bool{toIB, toRoCE}; got != step.want {
			t.Errorf("%s: used: %v, want %v", step.name, got, step.want)
		}
	}
}
