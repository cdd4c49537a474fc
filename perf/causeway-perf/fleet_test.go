// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestFleetTable checks the table of several runs, of which one ended early, and what is said of files without figures.
func TestFleetTable(t *testing.T) {
	line := func(event string, lost string) string { return `{"event":"` + event + `","lost_ms":` + lost + "}\n" }
	for _, c := range []struct{ file, want, err string }{
		{line("one is killed", "1130") + line("it is back", "0") + line("one is killed", "1040") + line("it is back", "20") + line("one is killed", "1200"),
			"| one is killed | 3 | 1040 ms | 1130 ms | 1200 ms |\n| it is back | 2 | 0 ms | 20 ms | 20 ms |\n", ""},
		{"", "", "no event was measured"},
		{`{"event":"one is killed"}`, "", "a line has no event, or no lost_ms"},
		{"one is killed", "", "invalid character"},
	} {
		var out strings.Builder
		err := fleetTable(&out, strings.NewReader(c.file))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v", c.file, err)
			}
		} else if _, rows, _ := strings.Cut(out.String(), "|---|---|---|---|---|\n"); err != nil || rows != c.want {
			t.Errorf("%q: %v\n%s", c.file, err, &out)
		}
	}
}
