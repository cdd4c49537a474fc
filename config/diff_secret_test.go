// SPDX-License-Identifier: Apache-2.0

package config

import (
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
