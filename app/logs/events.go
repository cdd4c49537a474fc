// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"slices"
	"strings"
)

// An Event is one kind of line. Names do not change from one version to the next: whoever looks for one finds it.
type Event struct {
	Name  string
	Level string // one, or those that it has
	Area  string // where it comes from, as an operator thinks
	Means string // and what to do, where something is
}

// Reference returns the documentation of every event as Markdown. docs/log.md is this text; a test compares them.
func Reference() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!-- Made from app/logs/list.go by "go test ./app/logs -run TestReference -update"; do not edit. -->
# The log

The bridge logs to standard error, a line an event, as `+"`[log]`"+` says: as text, or as JSON. `+"`msg`"+` is the event's name, which stays what it is
from one version to the next; what happened to whom is in the other keys. The console shows the last %d lines (`+"`show log`"+`) and changes
the level while the bridge runs (`+"`set log level`"+`).

No more than %d lines a second are written of one event. The others are counted, and told of by a line `+"`suppressed`"+` when it calms, or
each minute. The packet path logs nothing: what happens to packets is in the [metrics](metrics.md).
`, kept, most)
	for i, e := range Events {
		if slices.IndexFunc(Events, func(o Event) bool { return o.Area == e.Area }) == i { // the area's first
			referenceArea(&b, e.Area)
		}
	}
	return b.String()
}

func referenceArea(b *strings.Builder, area string) {
	fmt.Fprintf(b, "\n## %s\n\n| event | level | meaning |\n|---|---|---|\n", area)
	for _, e := range Events {
		if e.Area == area {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", e.Name, strings.Join(strings.Fields(e.Level), ", "), e.Means)
		}
	}
}
