// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
)

// Help explains a command, or lists those that begin with the words; without any, all.
func (t *Table) Help(words []string) ([]string, error) {
	at, rest, err := t.find(words)
	switch {
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, usagef("%q is not a word of a command", rest[0])
	}
	var lines []string
	if at.command != nil {
		lines = at.command.help()
	}
	if len(at.children) > 0 {
		if lines != nil {
			lines = append(lines, "")
		}
		lines = append(lines, t.list(at)...)
	}
	return lines, nil
}

// helpWidth is that of the explanation's sentences, where the screen is not narrower.
const helpWidth = 101

// help returns the explanation of one command.
func (c *Command) help() []string {
	lines := []string{c.usage(), "  " + sentence(c.Help)}
	if c.Long != "" {
		lines = append(lines, Hang([]string{"  " + c.Long}, helpWidth)...)
	}
	if c.Role == Admin {
		lines = append(lines, "  For admins.")
	}
	widest := 0
	for i := range c.Args {
		widest = max(widest, len(c.Args[i].usage(false)))
	}
	for i := range c.Args {
		a := &c.Args[i]
		form, help := a.usage(false), a.Help
		if a.Kind.About != "" {
			help += ": " + a.Kind.About
		}
		lines = append(lines, "    "+form+strings.Repeat(" ", widest-len(form)+2)+help)
	}
	return append(lines, "  Example: "+c.Example)
}

// list returns all commands below a word, a line each.
func (t *Table) list(n *node) (lines []string) {
	under := map[*Command]bool{}
	var walk func(*node)
	walk = func(n *node) {
		if n.command != nil {
			under[n.command] = true
		}
		for _, c := range n.children {
			walk(c)
		}
	}
	for _, c := range n.children {
		walk(c)
	}
	widest := 0
	for c := range under {
		widest = max(widest, len(c.Path))
	}
	for i := range t.Commands {
		c := &t.Commands[i]
		if !under[c] {
			continue
		}
		line := "  " + c.Path + strings.Repeat(" ", widest-len(c.Path)+2) + c.Help
		if c.Role == Admin {
			line += " (admin)"
		}
		lines = append(lines, line)
	}
	if n == t.root {
		lines = append(lines, "", "Words may be abbreviated, except clear, confirm, drain and halt. ? shows what can come next, Tab completes. After a command, \"| json\",",
			"\"| match REGEXP\" and \"| count\" change how its result is shown. \"help COMMAND\" explains one command.")
	}
	return lines
}

// sentence returns a help line as a sentence.
func sentence(s string) string { return capital(s) + "." }

// capital returns s with its first letter in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
