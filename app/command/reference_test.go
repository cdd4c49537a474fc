// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
)

// Reference returns the documentation of all commands as Markdown. docs/console.md is this text; a test compares them.
func (t *Table) Reference() string {
	var b strings.Builder
	b.WriteString(`<!-- Made from app/command by "go test ./app/command -run TestReference -update"; do not edit. -->
# Console

A running bridge with ` + "`[console] listen`" + ` in its [configuration](configuration.md) takes commands:

    causeway ctl                          # a session: line editing, history, Tab, ?
    causeway ctl show hosts               # one command; exit code 0, 1 (failed) or 2 (not understood)
    causeway ctl -json show drops | jq .  # the same values, for programs
    causeway ctl -f changes.txt           # a command a line, # comments; the first that fails ends it. Also from a pipe
    telnet 127.0.0.1 4711                 # a session over TCP; nc and nc -U work, too, a line at a time
    source <(causeway completion bash)    # or zsh, fish

**Roles.** On a Unix socket the kernel identifies the user: root, the user and group that the bridge runs as and members of the
group ` + "`causeway`" + ` are admins, all others may only view. Over TCP everybody may view, and ` + "`login`" + ` with the configured token
makes a session admin. Commands that change something are logged as ` + "`console_command`" + `.

**At every point** ` + "`?`" + ` shows what can come next and Tab completes; words may be abbreviated as long as they are unambiguous
(` + "`sh ho`" + `), except ` + "`clear`, `drain` and `halt`" + `. Long results stop at each screen (space, Enter, q). q, Ctrl-C or Enter ends a
command that runs until then. Ctrl-R searches the history. ` + "`causeway ctl`" + ` keeps the last 200 lines of sessions, without tokens and Q_Keys, in
` + "`$XDG_STATE_HOME/causeway/history` (`~/.local/state`)" + `, for its user alone.

**A change** with ` + "`confirm 60`" + ` goes back by itself after 60 seconds, unless ` + "`confirm`" + ` is said before. Meanwhile ` + "`show status`" + ` names it,
and there can be no other; ` + "`reload undo`" + ` takes it back at once. It is in no file, so a restart does, too.

**After a command:**

| | |
|---|---|
`)
	for _, s := range pipeStages {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace("\\| "+s.Word+" "+s.Form), s.Help)
	}
	b.WriteString(`
In JSON a result is one object: tables are arrays of objects, rates are numbers per second, durations are seconds, sizes are bytes,
` + "`null`" + ` is not known or none, and ` + "`…_total`" + ` is the number of rows of a table that is not shown in full. LIDs, keys and numbers of queue pairs
are strings in hexadecimal. Commands that run until ended print one object a line.
Lists show 200 entries without ` + "`limit`" + `.

A session ends after half an hour without input. There can be 16 sessions each of root, of other admins, of other users of the Unix
socket, and over TCP of clients that have not logged in; none takes another kind's place. When a kind has all of its own, who has the
most of them gives one to who has fewer; over TCP a client that has not logged in always gets in, and the oldest goes. A client that
does not read its output for ten seconds is disconnected.
`)
	last := ""
	for i := range t.Commands {
		c := &t.Commands[i]
		if first := strings.Fields(c.Path)[0]; first != last {
			last = first
			fmt.Fprintf(&b, "\n## %s\n", heading(first))
		}
		fmt.Fprintf(&b, "\n### %s\n\n", c.Path)
		c.reference(&b)
	}
	return b.String()
}

// heading returns the title of the commands that begin with a word.
func heading(word string) string {
	if help, ok := groupHelp[word]; ok {
		return word + ": " + help
	}
	return word
}

func (c *Command) reference(b *strings.Builder) {
	fmt.Fprintf(b, "`%s`", c.usage())
	if c.Role == Admin {
		b.WriteString(" (admin)")
	}
	fmt.Fprintf(b, "\n\n%s", sentence(c.Help))
	if c.Long != "" {
		b.WriteString(" " + c.Long)
	}
	b.WriteString("\n")
	if len(c.Args) > 0 {
		b.WriteString("\n| argument | meaning |\n|---|---|\n")
	}
	for i := range c.Args {
		a := &c.Args[i]
		help := a.Help
		if a.Kind.About != "" {
			help += ": " + a.Kind.About
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(a.usage(false), "|", "\\|"), strings.ReplaceAll(help, "|", "\\|"))
	}
	fmt.Fprintf(b, "\nExample: `%s`\n", c.Example)
}

// Manual returns the page causeway-console(7) in roff (man(7)). docs/man/causeway-console.7 is this text.
func (t *Table) Manual() string {
	var b strings.Builder
	b.WriteString(`.\" Made from app/command by "go test ./app/command -run TestManual -update"; do not edit.
.TH CAUSEWAY-CONSOLE 7 "" "causeway" "Causeway"
.SH NAME
causeway-console \- commands for a running bridge
.SH SYNOPSIS
.B causeway ctl
.RI [ WORDS ...]
.SH DESCRIPTION
A running bridge takes commands on the sockets of [console] listen: from
.BR "causeway ctl" ,
telnet or nc. Words may be abbreviated; ? shows what can come next.
`)
	for _, s := range pipeStages {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("| "+s.Word+" "+s.Form)), roff(sentence(s.Help)))
	}
	b.WriteString(".SH COMMANDS\n")
	for i := range t.Commands {
		c := &t.Commands[i]
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(c.usage()), roff(sentence(c.Help)))
		if c.Long != "" {
			fmt.Fprintf(&b, "%s\n", roff(c.Long))
		}
		if c.Role == Admin {
			b.WriteString("For admins.\n")
		}
		for j := range c.Args {
			fmt.Fprintf(&b, ".br\n.I %s\n%s\n", roff(c.Args[j].usage(false)), roff(c.Args[j].Help+"."))
		}
		fmt.Fprintf(&b, ".br\nExample: %s\n", roff(c.Example))
	}
	b.WriteString(".SH SEE ALSO\n.BR causeway (1)\n")
	return b.String()
}

// roff escapes what roff would interpret.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}
