// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	words "causeway/app/command"
	"causeway/app/trace"
	"causeway/lcore"
)

var update = flag.Bool("update", false, "write docs/drops.md and docs/man instead of comparing them")

const madeHere = `Made by "go test ./app/causeway -run 'Docs|Man' -update"; do not edit.`

// helped is a subcommand's help in its parts.
type helped struct {
	command
	long  string // paragraphs
	flags []helpedFlag
}

// helpedFlag is one flag; value is the name of its value, "" for a flag without one.
type helpedFlag struct{ name, value, meaning string }

// flagLine is what flag.PrintDefaults writes of a flag: "  -c FILE" or, of one letter and without a value, "
// -v\tmeaning".
var flagLine = regexp.MustCompile(`^  -(\S+)(?: (\S+))?(?:\t(.*))?$`)

// helpOf asks a subcommand for its help, as "causeway help NAME" does.
func helpOf(t *testing.T, c command) helped {
	t.Helper()
	var out, wrong strings.Builder
	if code := c.run([]string{"-h"}, &out, &wrong); code != exitOK {
		t.Fatalf("causeway %s -h: exit code %d: %s", c.name, code, wrong.String())
	}
	_, text, _ := strings.Cut(out.String(), "\n\n")
	h := helped{command: c}
	var long []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch m := flagLine.FindStringSubmatch(line); {
		case m != nil:
			h.flags = append(h.flags, helpedFlag{m[1], m[2], m[3]})
		case len(h.flags) == 0:
			long = append(long, line)
		default:
			f := &h.flags[len(h.flags)-1]
			f.meaning = strings.TrimSpace(f.meaning + " " + strings.TrimSpace(line))
		}
	}
	h.long = strings.TrimSpace(strings.Join(long, "\n"))
	return h
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

// paragraphs writes a help's paragraphs. An indented line's first word is an item, unless the line continues one.
func paragraphs(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		item, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case line == "":
			b.WriteString(".PP\n")
		case strings.HasPrefix(line, "  ") && line[2] != ' ':
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(item), roff(strings.TrimSpace(meaning)))
		default:
			b.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
	}
	return b.String()
}

func (h helped) roffFlags() string {
	var b strings.Builder
	for _, f := range h.flags {
		fmt.Fprintf(&b, ".TP\n.BI \\-%s \" %s\"\n%s\n", roff(f.name), roff(f.value), roff(f.meaning))
	}
	return b.String()
}

func manHead(name string, section int, what string) string {
	return fmt.Sprintf(".\\\" %s\n.TH %s %d \"\" \"causeway\" \"Causeway\"\n.SH NAME\n%s \\- %s\n", madeHere, strings.ToUpper(roff(name)), section, roff(name), what)
}

// manCauseway is causeway(1).
func manCauseway(t *testing.T) string {
	var b strings.Builder
	b.WriteString(manHead("causeway", 1, "bridge between a RoCE fabric and an InfiniBand fabric"))
	b.WriteString(".SH SYNOPSIS\n.B causeway\n.I COMMAND\n.RI [ ARGUMENTS ]\n.SH DESCRIPTION\n" +
		"Carries UD messages and multicast between RoCE hosts and InfiniBand nodes, both ways.\n.SH COMMANDS\n")
	for _, c := range commands() {
		h := helpOf(t, c)
		fmt.Fprintf(&b, ".SS %s\n.B %s\n.PP\n%s%s", roff(c.name), roff(usageLine(c)), paragraphs(h.long), h.roffFlags())
	}
	b.WriteString(`.SH "EXIT STATUS"
0 on success, 1 on failure, 2 on wrong usage.
.B run
also exits with 75 when its RDMA device is missing or was lost: start it again.
.SH FILES
.TP
.I /etc/causeway/bridge.toml
the configuration that the packaged unit uses
.TP
.I /etc/default/causeway
how many hugepages the packaged unit reserves
.TP
.I ` + defaultSocket + `
the console's socket
.TP
.I /usr/share/doc/causeway
all documents, and an example of a configuration
.SH "SEE ALSO"
.BR causeway\-ctl (1),
.BR causeway\-etcd (1),
.BR causeway.toml (5),
.BR causeway\-console (7)
`)
	return b.String()
}

// manCtl is causeway-ctl(1).
func manCtl(t *testing.T) string {
	c, _ := find("ctl")
	h := helpOf(t, c)
	var b strings.Builder
	b.WriteString(manHead("causeway-ctl", 1, roff(c.short)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n%s.SH OPTIONS\n%s.SH COMMANDS\nCommands of a running bridge.\n.BR causeway\\-console (7)\ndescribes their arguments.\n",
		roff(usageLine(c)), paragraphs(h.long), h.roffFlags())
	for _, c := range words.Standard.Commands {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s.", roff(c.Path), roff(strings.ToUpper(c.Help[:1])+c.Help[1:]))
		if c.Role == words.Admin {
			b.WriteString(" For admins.")
		}
		b.WriteString("\n")
	}
	b.WriteString(".SH EXAMPLES\n")
	for _, c := range words.Standard.Commands {
		if c.Local == words.LocalNone {
			fmt.Fprintf(&b, ".br\ncauseway ctl %s\n", roff(strings.ReplaceAll(c.Example, "|", "'|'")))
		}
	}
	b.WriteString(".SH \"SEE ALSO\"\n.BR causeway (1),\n.BR causeway\\-console (7)\n")
	return b.String()
}

// TestMan checks that the manual pages agree with the program's tables, and that groff reports no errors.
func TestMan(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Fatal("groff is missing; install groff-base (make deps)")
	}
	for name, page := range map[string]func(*testing.T) string{
		"causeway.1": manCauseway, "causeway-ctl.1": manCtl,
	} {
		text := page(t)
		sameDocument(t, "man/"+name, text)
		cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if long := slices.IndexFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "'") }); long >= 0 {
			t.Errorf("%s:%d begins with a quote, which groff takes for a request", name, long+1)
		}
	}
}

// portLoss is a line of ibside/verbs/drops.def.
var portLoss = regexp.MustCompile(`(?m)^(SEND|RECV)_DROP\((\w+), "(.*)"\)$`)

// TestDocsDrops checks that docs/drops.md agrees with drop.def, the trace's advice, and the InfiniBand port's
// drops.def.
func TestDocsDrops(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- %s -->\n# Drop reasons\n\n", madeHere)
	b.WriteString("Every packet leaves by one port or by one of these, in the order of the checks; `lcore/drop.def` is the list. How many there were: " +
		"`causeway ctl show drops`,\nor `causeway_packets_dropped_total` of the [metrics](metrics.md). One of them, explained: `causeway ctl trace drop any count 1`.\n\n" +
		"| reason | what was wrong | where to look |\n|---|---|---|\n")
	for _, d := range lcore.Drops() {
		fmt.Fprintf(&b, "| `%v` | %s | %s |\n", d, d.Sentence(), trace.Advice(d))
	}
	b.WriteString("\n## Lost by the InfiniBand port\n\nWhat counts as sent to an InfiniBand port may be lost there, and what it received may be lost " +
		"before a worker has it: `ibside/verbs/drops.def`\nis the list. How many there were: `causeway ctl show ports`, or " +
		"`causeway_ib_port_lost_total`. The device itself counts further losses: `causeway_ib_device_lost_total`.\n\n" +
		"| reason | towards | what was wrong |\n|---|---|---|\n")
	def, err := os.ReadFile(filepath.Join(root(t), "ibside", "verbs", "drops.def"))
	if err != nil {
		t.Fatal(err)
	}
	towards := map[string]string{"SEND": "InfiniBand", "RECV": "RoCE"}
	for _, m := range portLoss.FindAllStringSubmatch(string(def), -1) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m[2], towards[m[1]], m[3])
	}
	sameDocument(t, "drops.md", b.String())
}

// sameDocument checks that a document is what is generated from the source.
func sameDocument(t *testing.T, name, made string) {
	t.Helper()
	path := filepath.Join(root(t), "docs", name)
	if *update {
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != made {
		t.Errorf("docs/%s does not agree with the source (%v); run go test ./app/causeway -run 'Docs|Man' -update", name, err)
	}
}

// TestFlagForms checks that all help writes flags one way: one dash, and the values' names in capitals.
func TestFlagForms(t *testing.T) {
	two := regexp.MustCompile(`(^|[^-\w])--[a-z]`)
	capitals := regexp.MustCompile(`^[A-Z][A-Z:]*$`)
	for _, c := range commands() {
		h := helpOf(t, c)
		if two.MatchString(c.usage + "\n" + h.long) {
			t.Errorf("%s: two dashes: %s\n%s", c.name, c.usage, h.long)
		}
		for _, f := range h.flags {
			if f.value != "" && !capitals.MatchString(f.value) || two.MatchString(f.meaning) {
				t.Errorf("%s: -%s %s: %s", c.name, f.name, f.value, f.meaning)
			}
		}
	}
}
