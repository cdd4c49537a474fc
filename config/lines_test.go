// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestScanLines(t *testing.T) {
	const text = `# comment [x]
[roce] # after a header
port = "a#b" # after a value
addresses = [ # opens
  "10.9.0.1/24", "10.9.0.2/24",
  # between
  '''
long''', "]",
]
"quoted key" = """
[not.a.header]
key = "\""""
[[group]]
ip = "239.1.2.3"
[[group]]
nested = { a = 1, b = { c = [1,
2] } }
a . b = 5
[group.sub]
x = 1
[qos.dscp_to_sl]
46 = 5`
	want := map[string]int{
		"roce": 2, "roce.port": 3, "roce.addresses": 4, "roce.addresses[0]": 5, "roce.addresses[1]": 5,
		"roce.addresses[2]": 7, "roce.addresses[3]": 8, "roce.quoted key": 10, "group[0]": 13, "group[0].ip": 14,
		"group[1]": 15, "group[1].nested": 16, "group[1].nested.a": 16, "group[1].nested.b.c": 16,
		"group[1].nested.b.c[1]": 17, "group[1].a.b": 18, "group[1].sub": 19, "group[1].sub.x": 20,
		"qos.dscp_to_sl": 21, "qos.dscp_to_sl.46": 22,
	}
	got := scanLines(text)
	for path, line := range want {
		if got[path] != line {
			t.Errorf("%s: got line %d, want %d", path, got[path], line)
		}
	}
	for _, path := range []string{"not.a.header", "key", "roce.key"} {
		if n, ok := got[path]; ok {
			t.Errorf("%s: found in line %d, but it is inside a string", path, n)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"mtu", "mtu", 0}, {"adresses", "addresses", 1}, {"lvan", "vlan", 1}, {"lvna", "vlan", 2}, {"vlna", "vlan", 1}, {"", "ip", 2},
		{"ports", "port", 1}, {"idle", "lcores", 5},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
