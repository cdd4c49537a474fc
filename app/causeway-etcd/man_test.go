// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/man/causeway-etcd.1 instead of comparing it")

// roff escapes what roff would interpret.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

// manual is causeway-etcd(1).
func manual() string {
	var b strings.Builder
	fmt.Fprintf(&b, `.\" Made by "go test ./app/causeway-etcd -run TestMan -update"; do not edit.
.TH CAUSEWAY\-ETCD 1 "" "causeway" "Causeway"
.SH NAME
causeway\-etcd \- voter of a fleet of Causeway bridges
.SH SYNOPSIS
.B %s
.SH DESCRIPTION
%s
.SH OPTIONS
`, roff(usageLine), strings.ReplaceAll(roff(long), "\n\n", "\n.PP\n"))
	flags(&options{}).VisitAll(func(f *flag.Flag) {
		value, meaning := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, ".TP\n.BI \\-%s \" %s\"\n%s\n", roff(f.Name), roff(value), roff(meaning))
	})
	b.WriteString(".SH CONFIGURATION\nA TOML file. A key that is not listed here is an error.\n")
	last := ""
	for _, k := range keys {
		if k.table != last {
			fmt.Fprintf(&b, ".SS %s\n", roff(header(k.table)))
			last = k.table
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n.br\nDefault: %s.\n", roff(k.name), roff(k.meaning), roff(k.def))
	}
	b.WriteString(`.SH FILES
.TP
.I /etc/causeway/etcd.toml
the configuration that the packaged unit uses
.TP
.I /usr/share/doc/causeway/etcd.md
how to set up three voters, back up, restore, and replace one
.SH "SEE ALSO"
.BR causeway (1)
`)
	return b.String()
}

// TestMan checks that the manual page agrees with the program's tables, and that groff reports no errors.
func TestMan(t *testing.T) {
	const path = "../../docs/man/causeway-etcd.1"
	if *update {
		if err := os.WriteFile(path, []byte(manual()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != manual() {
		t.Errorf("docs/man/causeway-etcd.1 does not agree with the source (%v); run go test ./app/causeway-etcd -run TestMan -update", err)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Fatal("groff is missing; install groff-base (make deps)")
	}
	cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = strings.NewReader(manual())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestKeys checks that the list of keys is that of the file.
func TestKeys(t *testing.T) {
	for _, k := range keys {
		text := k.name + " = {}\n" // of no key's type
		if k.table != "" {
			text = header(k.table) + "\n" + text
		}
		if _, err := parse([]byte(text)); err == nil || strings.Contains(err.Error(), "not known") {
			t.Errorf("%s %s: %v", header(k.table), k.name, err)
		}
	}
	if !strings.Contains(keysHelp(), "quota_mib") {
		t.Error(keysHelp())
	}
}
