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
		want  bool
	}{
		{"when it is made", func() {}, true},
		{"when nothing crosses", func() {}, false},
		{"towards InfiniBand", func() { s.fromRoCE(v4()) }, true},
		{"a frame that is dropped", func() { s.fromRoCE(v4(dest("10.10.0.77"))) }, false},
		{"towards RoCE", func() { s.fromIB(received()) }, true},
	} {
		step.cross()
		if got := s.tables.ProxyQPs.TakeUsed(tables.HostQP{Host: hostIP, HostQPN: hostQPN}); got != step.want {
			t.Errorf("%s: used: %v, want %v", step.name, got, step.want)
		}
	}
}
