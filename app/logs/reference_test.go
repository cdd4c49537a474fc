// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"slices"
	"strings"
)

// reference returns docs/log.md: the documentation of every event as Markdown.
func reference() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!-- Made from app/logs/list_test.go by "go test ./app/logs -run TestReference -update"; do not edit. -->
# The log

The bridge logs to standard error, one line per event, as text or JSON as `+"`[log]`"+` says. `+"`msg`"+` is the event's name, which does not
change between versions; the details are in the other keys. The console shows the last %d lines (`+"`show log`"+`) and changes the level
while the bridge runs (`+"`set log level`"+`).

At most %d lines a second are written per event. Further ones are counted, and reported by a line `+"`suppressed`"+` when the flood is over, or
each minute. The packet path logs nothing: packets are counted in the [metrics](metrics.md). Where there are several RoCE segments, the
events about hosts, proxy QPs, groups and services have the segment's name in the key `+"`segment`"+`.
`, kept, most)
	for i, e := range events {
		if slices.IndexFunc(events, func(o event) bool { return o.Area == e.Area }) == i { // the first of its area
			referenceArea(&b, e.Area)
		}
	}
	return b.String()
}

func referenceArea(b *strings.Builder, area string) {
	fmt.Fprintf(b, "\n## %s\n\n| event | level | meaning |\n|---|---|---|\n", area)
	for _, e := range events {
		if e.Area == area {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", e.Name, strings.Join(strings.Fields(e.Level), ", "), e.Means)
		}
	}
}
