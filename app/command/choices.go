// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Option is a word that can come next.
type Option struct {
	Word string
	Help string
	Form bool // Word is a placeholder for a value
}

// Choices are the words that can come next in a line.
type Choices struct {
	Part    string // the incomplete last word; "" after a blank
	Options []Option
	Enter   bool // the line is complete
	Err     error
}

// Choices returns what can come next. line ends at the cursor. e may be nil; then no values are offered.
func (t *Table) Choices(ctx context.Context, e *Env, line string) Choices {
	words, open := split(line)
	if open {
		return Choices{Err: usagef("a quote is not closed")}
	}
	part := ""
	if n := len(words); n > 0 && !words[n-1].pipe && !strings.HasSuffix(line, " ") {
		part, words = words[n-1].text, words[:n-1]
	}
	s := stages(words)
	var c Choices
	if len(s) > 1 {
		c = pipeChoices(s[len(s)-1])
	} else {
		c = t.commandChoices(ctx, e, s[0], part)
	}
	c.Part = part
	c.Options = slices.DeleteFunc(c.Options, func(o Option) bool { return !o.Form && !strings.HasPrefix(o.Word, strings.ToLower(part)) })
	if part != "" {
		whole, err := t.Parse(line)
		c.Enter = err == nil && whole != nil
	}
	return c
}

func pipeChoices(words []string) (c Choices) {
	if len(words) == 0 {
		for _, s := range pipeStages {
			c.Options = append(c.Options, Option{Word: s.Word, Help: s.Help})
		}
		return c
	}
	var p Pipe
	err := p.add(words)
	name, _ := choose(words[0], []string{"count", "json", "match"})
	switch {
	case err == nil:
		c.Enter = true
	case name == "match" && len(words) == 1:
		c.Options = []Option{{Word: "REGEXP", Help: "a regular expression; in quotes if it has blanks or bars", Form: true}}
	default:
		c.Err = err
	}
	return c
}

// commandChoices returns the choices before the first bar.
func (t *Table) commandChoices(ctx context.Context, e *Env, words []string, part string) (c Choices) {
	at, rest, err := t.find(words)
	if err != nil {
		return Choices{Err: err}
	}
	if at.command != nil && at.command.Local == LocalWatch {
		return t.watchChoices(ctx, e, rest, part)
	}
	if len(rest) == 0 {
		path := t.path(at, words)
		for _, child := range at.children {
			c.Options = append(c.Options, Option{Word: child.word, Help: child.help(strings.TrimSpace(path + " " + child.word))})
		}
	}
	if at.command == nil {
		return c
	}
	if at.command.Local == LocalHelp {
		return t.helpChoices(rest)
	}
	more := argChoices(ctx, e, at.command, rest)
	more.Options = append(c.Options, more.Options...)
	return more
}

// path returns the words that lead to a node, in full.
func (t *Table) path(n *node, words []string) string {
	at, out := t.root, []string{}
	for _, w := range words {
		name, err := choose(w, at.words())
		if err != nil {
			break
		}
		out = append(out, name)
		if at = at.make(name); at == n {
			break
		}
	}
	return strings.Join(out, " ")
}

func (t *Table) watchChoices(ctx context.Context, e *Env, words []string, part string) Choices {
	if len(words) > 0 {
		if _, err := strconv.ParseFloat(words[0], 64); err == nil {
			words = words[1:]
			return t.commandChoices(ctx, e, words, part)
		}
		return t.commandChoices(ctx, e, words, part)
	}
	c := t.commandChoices(ctx, e, nil, part)
	c.Options = append([]Option{{Word: "SECONDS", Help: "between two runs; 2 without it", Form: true}}, c.Options...)
	return c
}

func (t *Table) helpChoices(words []string) (c Choices) {
	at, rest, err := t.find(words)
	if err != nil || len(rest) > 0 {
		return Choices{Err: err}
	}
	path := t.path(at, words)
	for _, child := range at.children {
		c.Options = append(c.Options, Option{Word: child.word, Help: child.help(strings.TrimSpace(path + " " + child.word))})
	}
	c.Enter = true
	return c
}

// argChoices are a command's arguments that may come after those that have.
func argChoices(ctx context.Context, e *Env, cmd *Command, words []string) (c Choices) {
	v := &Invocation{Command: cmd, values: map[string]any{}}
	for len(words) > 0 {
		used, err := v.parseArg(words)
		if err == nil {
			words = words[used:]
			continue
		}
		name, keyErr := choose(words[0], v.keys())
		if keyErr == nil && len(words) == 1 { // its value is missing
			i := slices.IndexFunc(cmd.Args, func(a Arg) bool { return a.Key == name })
			return Choices{Options: valueOptions(ctx, e, &cmd.Args[i])}
		}
		return Choices{Err: err}
	}
	if a := v.nextPositional(); a != nil {
		c.Options = valueOptions(ctx, e, a)
		if a.Needed {
			return c
		}
	}
	for _, k := range v.keys() {
		i := slices.IndexFunc(cmd.Args, func(a Arg) bool { return a.Key == k })
		c.Options = append(c.Options, Option{Word: k, Help: cmd.Args[i].Help})
	}
	c.Enter = v.parseArgs(nil) == nil
	return c
}

// valueOptions returns the values of an argument, or a placeholder and the values that exist.
func valueOptions(ctx context.Context, e *Env, a *Arg) (o []Option) {
	if a.Kind.Words != nil {
		for _, w := range a.Kind.Words {
			help := a.Help
			if a.Kind.Meaning != nil {
				help = a.Kind.Meaning(w)
			}
			o = append(o, Option{Word: w, Help: help})
		}
		return o
	}
	help := a.Help
	if a.Kind.About != "" {
		help += ": " + a.Kind.About
	}
	o = []Option{{Word: a.Kind.Form, Help: help, Form: true}}
	if a.Kind.Known != nil && e != nil {
		const patience = 300 * time.Millisecond
		ctx, done := context.WithTimeout(ctx, patience)
		defer done()
		for _, w := range a.Kind.Known(ctx, e) {
			o = append(o, Option{Word: w, Help: ""})
		}
	}
	return o
}

// Complete returns the longest common prefix of all options, with a blank behind it when there is only one.
func (c *Choices) Complete() string {
	var fit []string
	for _, o := range c.Options {
		if !o.Form {
			fit = append(fit, o.Word)
		}
	}
	if len(fit) == 0 {
		return c.Part
	}
	common := fit[0]
	for _, w := range fit[1:] {
		for !strings.HasPrefix(w, common) {
			common = common[:len(common)-1]
		}
	}
	if len(fit) == 1 {
		common += " "
	}
	return common
}

// Lines returns the options as lines of help. Options without help are put side by side when a width is given.
func (c *Choices) Lines(width int) (lines []string) {
	if c.Err != nil {
		return []string{c.Err.Error()}
	}
	widest := len("<Enter>")
	for _, o := range c.Options {
		widest = max(widest, len(o.Word))
	}
	pad := func(word, help string) string {
		return strings.TrimRight("  "+word+strings.Repeat(" ", widest-len(word)+2)+help, " ")
	}
	across := max(1, width/(widest+4))
	for i := 0; i < len(c.Options); {
		o := c.Options[i]
		line := pad(o.Word, o.Help)
		i++
		for n := 1; o.Help == "" && n < across && i < len(c.Options) && c.Options[i].Help == ""; n++ {
			line += strings.Repeat(" ", n*(widest+4)-len(line)) + pad(c.Options[i].Word, "")
			i++
		}
		lines = append(lines, line)
	}
	if c.Enter {
		lines = append(lines, pad("<Enter>", "run the command"), pad("|", "change how the result is shown"))
	}
	return lines
}
