// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestManual checks that causeway.toml(5) agrees with the tables, and that groff reports no errors.
func TestManual(t *testing.T) {
	sameAsFile(t, "../docs/man/causeway.toml.5", manual())
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Fatal("groff is missing; install groff-base (make deps)")
	}
	cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = strings.NewReader(manual())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if at := strings.Index(manual(), "\n'"); at >= 0 {
		t.Errorf("the line after %q begins with a quote, which groff takes for a request", manual()[max(0, at-40):at])
	}
}

// manual returns causeway.toml(5) as man(7) macros.
func manual() string {
	return `.\" Made from config/keys.go by "go test ./config -run TestManual -update"; do not edit.
.TH CAUSEWAY.TOML 5 "" "causeway" "Causeway"
.SH NAME
causeway.toml \- the configuration of a bridge
.SH SYNOPSIS
.B causeway check
.I FILE
.br
.B causeway run \-c
.I FILE
.SH DESCRIPTION
A TOML file. Tables with double brackets may occur several times. Numbers may be hexadecimal. A key that is not listed here is an
error.
.SH TABLES
` + manualTables() + `.SH EXAMPLE
A small configuration;
.B causeway example
prints one with every key.
.PP
.nf
` + roffLines(ShortExample()) + `.fi
.SH "SEE ALSO"
.BR causeway (1)
`
}

// manualTables returns the sections that describe tables and keys.
func manualTables() string {
	plain := func(s string) string { return roff(strings.ReplaceAll(s, "`", "")) }
	var b strings.Builder
	for i := range tables {
		t := &tables[i]
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(t.header()), plain(t.meaning))
		if t.need {
			b.WriteString("This table is needed.\n")
		}
		for j := range t.keys {
			k := &t.keys[j]
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

// roff escapes what roff would interpret.
func roff(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	if s = b.String(); strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

func roffLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	return b.String()
}
