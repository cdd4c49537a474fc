// SPDX-License-Identifier: Apache-2.0

//go:build portable

package lcore_test

import (
	"testing"

	"causeway/lcore"
)

// The build tag "portable" compiles lcore and tables with the C for CPUs other than x86: its parser, hash, tag compare and
// ICRC. make test runs their tests a second time with it, the long ones shortened; this one shows that the tag was heeded.
func TestPortable(t *testing.T) {
	if name := lcore.ICRCVersion(); name != "table" {
		t.Errorf("the ICRC is %q's: the C was not built with CAUSEWAY_PORTABLE", name)
	}
}
