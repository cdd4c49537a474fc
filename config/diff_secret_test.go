// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestSecret checks that a token is compared, and never shown.
func TestSecret(t *testing.T) {
	parse := func(token string) *Config {
		c, err := Parse("t.toml", []byte(`[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
[ib]
port = "fabric:"
[policy]
allow = ["10.9.0.0/24"]
[console]
token = "`+token+`"
`))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	changes := Diff(parse("first-secret-token"), parse("other-secret-token"))
	if len(changes) != 1 || changes[0].Key != "token" || strings.Contains(changes.String(), "secret-token") || strings.Contains(changes[0].New, "other") {
		t.Errorf("%+v", changes)
	}
}

// TestPublic checks that no Q_Key is in a change as others than admins see it, whatever changes.
func TestPublic(t *testing.T) {
	const group = "\n[policy]\nallow = [\"10.9.0.0/24\"]\n[[group]]\nip = \"239.1.2.3\"\nqkey = 0x2468ace\n[[range]]\nip = \"239.2.0.0/16\"\nqkey = 0x2468ace\n"
	none, one := parseGood(t, small), parseGood(t, small+group)
	other := parseGood(t, small+strings.ReplaceAll(group, "2468ace", "1357bdf"))
	for _, changes := range []Changes{Diff(none, one), Diff(one, other), Diff(other, none)} {
		open, public := fmt.Sprintf("%+v", changes), fmt.Sprintf("%+v", changes.Public())
		if !strings.Contains(open, "2468ace") && !strings.Contains(open, "1357bdf") {
			t.Errorf("the owner of the file does not see it: %s", open)
		}
		if strings.Contains(public, "2468ace") || strings.Contains(public, "1357bdf") || !strings.Contains(public, "qkey") {
			t.Errorf("%s", public)
		}
	}
}
