// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Manual returns the sections of the manual page causeway.toml(5) about tables and keys, in man(7)'s macros. roff escapes text.
func Manual(roff func(string) string) string {
	plain := func(s string) string { return roff(strings.ReplaceAll(s, "`", "")) }
	var b strings.Builder
	for i := range tables {
		t := &tables[i]
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(t.header()), plain(t.meaning))
		if t.need {
			b.WriteString("This table is needed.\n")
		}
		for j := range keys {
			k := &keys[j]
			if k.table != t.name {
				continue
			}
			def := k.plainDefault()
			if k.need {
				def = "none, it is needed"
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n.br\nValue: %s. Default: %s. While running: %s.\n", roff(k.name), plain(k.meaning),
				plain(k.typeText()), plain(def), k.whileRunning())
		}
	}
	return b.String()
}
