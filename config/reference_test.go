// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestReference(t *testing.T) { sameAsFile(t, "../docs/configuration.md", reference()) }

// reference returns docs/configuration.md: the documentation of every table and key as Markdown.
func reference() string {
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

// reference writes the section of one table.
func (t *tableDoc) reference(b *strings.Builder) {
	needed := ""
	if t.need {
		needed = " This table is needed."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s%s\n\n| key | type | default | while running | meaning |\n|---|---|---|---|---|\n", t.header(), t.meaning, needed)
	for i := range t.keys {
		k := &t.keys[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.name, k.typeText(), k.defaultText(), k.whileRunning(), k.meaning)
	}
}

// defaultText returns the default in the form of the file.
func (k *key) defaultText() string {
	if k.def != nil {
		return "`" + k.plainDefault() + "`"
	}
	switch {
	case k.need:
		return "needed"
	case k.noted != "":
		return k.noted
	}
	return ""
}
