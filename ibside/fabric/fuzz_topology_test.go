// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
)

// FuzzTopology checks that any file is either a topology of which a subnet can be made, or is rejected with its name.
func FuzzTopology(f *testing.F) {
	f.Add("[fabric]\npkeys = [0xffff, 0x8001]\nmtu = 2048\n[[node]]\nname = \"a\"\nguid = 7\nrole = \"echo\"\n")
	f.Add("[[node]]\nname = \"a\"\nguid = \"0x7\"\nrole = \"publish\"\ngroup = \"239.1.2.3\"\nrate = 10\n")
	f.Add("[fabric]\nsocket = 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseTopology("x.toml", text)
		if err != nil {
			if !strings.Contains(err.Error(), "x.toml") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if c.Socket = ""; len(c.Nodes) > 16 {
			return
		}
		s, err := New(c)
		if err == nil {
			s.Close()
		}
	})
}
