// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"strings"
	"testing"
)

// elsewhere are edits that give all hosts other addresses on the RoCE side, and on InfiniBand those that they have
// otherwise.
var elsewhere = []string{
	"10.9.0.", "10.8.0.", "fd09::", "fd08::", "[policy]",
	"[[translate]]\nroce = \"10.8.0.0/24\"\nib = \"10.9.0.0/24\"\n[[translate]]\nroce = \"fd08::/64\"\nib = \"fd09::/64\"\n[policy]",
}

// TestTranslated wants the InfiniBand side to be looked at, and mended, by the addresses that nodes know.
func TestTranslated(t *testing.T) {
	var b bytes.Buffer
	if found := well().examine(load(t, elsewhere...)); !found.fine() || found.WriteText(&b, false) != nil {
		t.Errorf("nothing is wrong, but\n%s", &b)
	}
	const toDummy = "ip link add causeway0 type dummy\nip link set causeway0 up\nip route replace 10.9.0.1/32 dev causeway0"
	for _, c := range ipoibFaults {
		t.Run(c.name, func(t *testing.T) {
			m := well()
			c.make(m)
			var fixes []string
			for _, f := range m.examine(load(t, elsewhere...)) {
				if f.Check == c.check {
					fixes = append(fixes, f.Fix...)
				}
			}
			want := c.fix
			switch c.name {
			case "one RoCE host": // nobody on the RoCE side's interface has that address
				want = toDummy
			case "route of plain IPv6":
				want = ""
			}
			if got := strings.Join(fixes, "\n"); got != want {
				t.Errorf("fix:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestHalfTranslated wants each part of a subnet to be looked at by its own addresses.
func TestHalfTranslated(t *testing.T) {
	m := well()
	m.routes["10.10.9.128/25"] = "ib0"
	var b bytes.Buffer
	found := m.examine(load(t, "[policy]", "[[translate]]\nroce = \"10.9.0.128/25\"\nib = \"10.10.9.128/25\"\n[policy]"))
	if err := found.WriteFixes(&b); err != nil || !strings.HasSuffix(b.String(), "ip route replace 10.10.9.128/25 dev causeway0\n"+
		"ip route get 10.10.9.129 from 10.9.0.7 iif ib0\n") || strings.Contains(b.String(), "10.9.0.0") {
		t.Errorf("%v; fix\n%s", err, &b)
	}
}
