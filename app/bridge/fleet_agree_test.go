// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"causeway/fleet/etcd"
)

// TestDisagreement has members with configurations a, b and c: that of most is the fleet's, and of as many that which was
// there first. One member alone agrees with itself.
func TestDisagreement(t *testing.T) {
	text := func(of string) string { return "[policy] allow = " + of + "\n[qos] dscp_to_sl = {}" }
	for _, c := range []struct {
		members string // m1, m2, … in the order in which they published
		want    string // who disagrees, with whom
	}{
		{"a", ""},
		{"aaa", ""},
		{"aab", "m3: m1, m2"},
		{"baa", "m1: m2, m3"},
		{"ab", "m2: m1"},
		{"ba", "m2: m1"},
		{"abc", "m2: m1, m3: m1"},
		{"aabb", "m3: m1, m2, m4: m1, m2"},
	} {
		all := map[string]etcd.Published{}
		for i, of := range strings.Split(c.members, "") {
			all[fmt.Sprint("m", i+1)] = etcd.Published{Text: text(of), Since: int64(100 + i)}
		}
		var got []string
		for i, of := range strings.Split(c.members, "") {
			name := fmt.Sprint("m", i+1)
			why := disagreement(name, all)
			if why == "" {
				continue
			}
			theirs, in, _ := strings.Cut(strings.TrimPrefix(why, "its configuration is not that of "), ": ")
			got = append(got, name+": "+theirs)
			if !strings.HasPrefix(in, "[policy] allow is "+of+" here, and ") {
				t.Errorf("%s: %s", c.members, why)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q disagree, want %q", c.members, got, c.want)
		}
	}
}

// TestPublishedIsBounded checks that a long configuration is published in short, and still tells where it differs.
func TestPublishedIsBounded(t *testing.T) {
	var lines []string
	for i := range 40_000 {
		lines = append(lines, fmt.Sprintf("[[host]] 10.%d.%d.%d = side roce, mac 02:00:00:00:00:01", i>>16, i>>8&255, i&255))
	}
	other := slices.Clone(lines)
	other[7] += "2"
	a, b := published(lines), published(other)
	if len(a) > 200 || a == b || !strings.HasPrefix(a, "[[host]] = 40000 lines, ") {
		t.Errorf("%d bytes: %.200s", len(a), a)
	}
	if one := published(lines[:1]); one != lines[0] {
		t.Errorf("%q", one)
	}
}
