// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Reference returns the documentation of every table and key as Markdown.
// docs/configuration.md is this text; a test compares them.
func Reference() string {
	var b strings.Builder
	b.WriteString(`<!-- Made from config/keys.go by "go test ./config -run TestReference -update"; do not edit. -->
# Configuration

Causeway reads one TOML file. [example.toml](example.toml) shows one in full. ` + "`causeway check FILE`" + ` reports every problem in
it, each with its line and what to write instead; keys that are not listed here are problems too.

A table whose header has double brackets may appear many times. A number may be written in hexadecimal (0xffff).

The column "while running" says whether a running bridge takes another value with ` + "`reload`" + ` (or SIGHUP); the others need a
restart, and ` + "`causeway diff`" + ` names them. A reload is checked whole before anything is done, and does all or nothing.
`)
	for i := range tables {
		tables[i].reference(&b)
	}
	return b.String()
}

// reference writes one table's section.
func (t *tableDoc) reference(b *strings.Builder) {
	needed := ""
	if t.need {
		needed = " This table is needed."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s%s\n\n| key | type | default | while running | meaning |\n|---|---|---|---|---|\n", t.header(), t.meaning, needed)
	for i := range keys {
		if k := &keys[i]; k.table == t.name {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.name, k.typeText(), k.defaultText(), k.whileRunning(), k.meaning)
		}
	}
}

// whileRunning says whether a running bridge takes another value.
func (k *key) whileRunning() string {
	if k.isLive() {
		return "yes"
	}
	return "no"
}

// typeText says what a value may be.
func (k *key) typeText() string {
	switch {
	case len(k.words) > 0 && k.kind == texts:
		return "list of " + enumerate(k.words, "or")
	case len(k.words) > 0:
		return enumerate(k.words, "or")
	case k.kind == number:
		return k.bounds()
	case k.kind == numbers:
		return "list of " + k.bounds()
	case k.kind == mapping:
		return fmt.Sprintf("table, 0 to %d = %s", k.keyHi, k.bounds())
	}
	return strings.TrimPrefix(k.kind.String(), "a ")
}

// defaultText writes the default as the file would have it.
func (k *key) defaultText() string {
	switch d := k.def.(type) {
	case string:
		return fmt.Sprintf("`%q`", d)
	case int64:
		return "`" + k.show(d) + "`"
	case bool:
		return fmt.Sprintf("`%v`", d)
	case []string:
		return fmt.Sprintf("`[%q]`", strings.Join(d, `", "`))
	case []int64:
		return fmt.Sprintf("`%v`", d)
	}
	switch {
	case k.need:
		return "needed"
	case k.noted != "":
		return k.noted
	}
	return ""
}
