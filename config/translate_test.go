// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"testing"
)

// TestTranslations checks that entries are applied together: an address that one entry translates away another may use.
func TestTranslations(t *testing.T) {
	const head = `[roce]
port = "ring"
addresses = ["10.9.0.254/24", "10.10.0.254/24", "fd09::fe/64"]
[ib]
port = "fabric:"
[policy]
allow = ["10.0.0.0/8", "fd09::/64"]
[[host]]
ip = "10.10.0.7"
ip6 = "fd09::7"
side = "ib"
gid = "fe80::7"
`
	entry := func(roce, ib string) string { return "[[translate]]\nroce = \"" + roce + "\"\nib = \"" + ib + "\"\n" }
	for _, c := range []struct{ name, entries, roce, ib string }{
		{"none", "", "10.9.0.1", "10.9.0.1"},
		{"one", entry("10.9.0.0/24", "10.11.0.0/24"), "10.9.0.1", "10.11.0.1"},
		{"one that is no host's yet", entry("10.8.0.0/24", "10.11.0.0/24"), "10.8.0.1", "10.11.0.1"},
		{"two that change places", entry("10.9.0.0/24", "10.10.0.0/24") + entry("10.10.0.0/24", "10.9.0.0/24"), "10.10.0.7", "10.9.0.7"},
		{"halves of a subnet", entry("10.10.0.0/25", "10.10.0.128/25") + entry("10.10.0.128/25", "10.10.0.0/25"), "10.10.0.7", "10.10.0.135"},
		{"IPv6", entry("10.9.0.0/24", "10.11.0.0/24") + entry("fd09::/64", "fd10::/64"), "fd09::7", "fd10::7"},
		{"one address", entry("10.10.0.7/32", "198.51.100.7/32"), "10.10.0.7", "198.51.100.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := parseGood(t, head+c.entries)
			got, ok := cfg.TranslationsIn(&cfg.RoCE).ToIB(netip.MustParseAddr(c.roce))
			if !ok || got != netip.MustParseAddr(c.ib) {
				t.Errorf("%s is %v on InfiniBand (%v), want %s", c.roce, got, ok, c.ib)
			}
		})
	}
}
