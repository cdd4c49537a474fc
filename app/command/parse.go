// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/config"
)

// An Invocation is a parsed line.
type Invocation struct {
	Command *Command
	Every   time.Duration // the interval of watch; 0: run once
	Pipe    Pipe

	values map[string]any
	rest   []string
}

// UntilEnded reports whether the line's command runs until it is ended.
func (v *Invocation) UntilEnded() bool { return v.Every > 0 || v.Command.Stream != nil }

// HasSecret reports whether a value was given that is not for files.
func (v *Invocation) HasSecret() bool {
	return slices.ContainsFunc(v.Command.Args, func(a Arg) bool { return a.Secret && v.values[a.Name] != nil })
}

// Call returns the call of the line's command.
func (v *Invocation) Call(e *Env, r Role, user string) *Call {
	return &Call{Env: e, Role: r, User: user, values: v.values, rest: v.rest, picks: len(v.Pipe.match) > 0}
}

// Parse parses a line; nil for a blank one. An error is a *Usage.
func (t *Table) Parse(line string) (*Invocation, error) {
	words, open := split(line)
	if open {
		return nil, usagef("a quote is not closed")
	}
	return t.parse(stages(words))
}

// ParseWords parses words that a shell has split; "|" is a word of its own. One word with blanks is a whole line.
func (t *Table) ParseWords(all []string) (*Invocation, error) {
	if len(all) == 1 && strings.ContainsAny(all[0], " \t") {
		return t.Parse(all[0])
	}
	var words []word
	for _, w := range all {
		words = append(words, word{text: w, pipe: w == "|"})
	}
	return t.parse(stages(words))
}

func (t *Table) parse(stages [][]string) (*Invocation, error) {
	if len(stages) == 1 && len(stages[0]) == 0 {
		return nil, nil
	}
	v, err := t.parseCommand(stages[0])
	if err != nil {
		return nil, err
	}
	for _, s := range stages[1:] {
		if err := v.Pipe.add(s); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// parseCommand parses what is before the first bar.
func (t *Table) parseCommand(words []string) (*Invocation, error) {
	at, rest, err := t.find(words)
	if err != nil {
		return nil, err
	}
	if at.command == nil {
		if len(words) == 0 {
			return nil, usagef("a command is missing: %s", oneOf(at.words()))
		}
		return nil, usagef("%s is incomplete: %s", t.path(at, words), oneOf(at.words()))
	}
	v := &Invocation{Command: at.command, values: map[string]any{}}
	if at.command.Local == LocalWatch {
		return t.parseWatch(rest)
	}
	return v, v.parseArgs(rest)
}

// neverShort are the first words that are not abbreviated: what they do must not be a slip.
var neverShort = []string{"clear", "confirm", "drain", "halt"}

// find walks down the tree along the words, and returns the node and the words that are left.
func (t *Table) find(words []string) (*node, []string, error) {
	at := t.root
	for i, w := range words {
		if len(at.children) == 0 {
			return at, words[i:], nil
		}
		name, err := choose(w, at.words())
		if err == nil && at == t.root && slices.Contains(neverShort, name) && !strings.EqualFold(w, name) {
			err = usagef("%s is never abbreviated: write the whole word", name)
		}
		if err != nil {
			if at.command != nil { // an argument, then
				return at, words[i:], nil
			}
			return nil, nil, err
		}
		at = at.make(name)
	}
	return at, nil, nil
}

// parseWatch reads "watch [SECONDS] COMMAND…".
func (t *Table) parseWatch(words []string) (*Invocation, error) {
	every := 2 * time.Second
	if len(words) > 0 {
		if n, err := strconv.ParseFloat(words[0], 64); err == nil {
			if !(n >= 0.2 && n <= 3600) {
				return nil, usagef("watch %s: write seconds from 0.2 to 3600", words[0])
			}
			every, words = time.Duration(n*float64(time.Second)), words[1:]
		}
	}
	if len(words) == 0 {
		return nil, usagef("watch needs a command: watch 2 show rates")
	}
	v, err := t.parseCommand(words)
	switch {
	case err != nil:
		return nil, err
	case v.Every > 0 || v.Command.Run == nil || v.Command.Role != View:
		return nil, usagef("%s cannot be watched; only commands that read, and end by themselves, can", v.Command.Path)
	}
	v.Every = every
	return v, nil
}

// choose returns the known word that w is, or abbreviates.
func choose(w string, known []string) (string, error) {
	var fit []string
	for _, k := range known {
		if k == w {
			return k, nil
		}
		if strings.HasPrefix(k, strings.ToLower(w)) && w != "" {
			fit = append(fit, k)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		return "", usagef("%q is ambiguous: %s", w, enumerate(fit, "or"))
	}
	// A short word must begin alike: "foo" was not meant to be "log".
	if near := config.Nearest(w, known); near != "" && (len(w) > 3 || near[0] == w[0]) {
		return "", usagef("there is no %q here; did you mean %s?", w, near)
	}
	return "", usagef("there is no %q here: %s", w, oneOf(known))
}

// parseArgs parses a command's arguments: positional values in order, and keys, with or without a value, in any order.
func (v *Invocation) parseArgs(words []string) error {
	args := v.Command.Args
	for len(words) > 0 {
		used, err := v.parseArg(words)
		if err != nil {
			return err
		}
		words = words[used:]
	}
	for i := range args {
		a := &args[i]
		if _, given := v.values[a.Name]; a.Needed && !given && (!a.Rest || len(v.rest) == 0) {
			return usagef("%s is missing: %s", strings.TrimSpace(a.Key+" "+a.Kind.Form), v.Command.usage())
		}
	}
	return nil
}

// parseArg parses one argument, and returns how many words it took.
func (v *Invocation) parseArg(words []string) (int, error) {
	if name, err := choose(words[0], v.given()); err == nil {
		return 0, usagef("%s is given twice", name)
	}
	if a := v.nextPositional(); a != nil {
		if a.Rest {
			v.rest = words
			return len(words), nil
		}
		value, err := a.Kind.parse(words[0])
		if err == nil {
			v.values[a.Name] = value
			return 1, nil
		}
		if _, keyErr := choose(words[0], v.keys()); a.Needed || keyErr != nil {
			return 0, usagef("%s %q: %s", a.Kind.Form, words[0], err)
		}
	}
	keys := v.keys()
	if len(keys) == 0 {
		return 0, usagef("%q is unexpected: %s", words[0], v.Command.usage())
	}
	name, err := choose(words[0], keys)
	if err != nil {
		return 0, err
	}
	return v.parseKey(name, words[1:])
}

// parseKey parses the value of a key, and returns how many words both took.
func (v *Invocation) parseKey(name string, words []string) (int, error) {
	i := slices.IndexFunc(v.Command.Args, func(a Arg) bool { return a.Key == name })
	a := &v.Command.Args[i]
	if a.Kind.Parse == nil {
		v.values[a.Name] = true
		return 1, nil
	}
	if len(words) == 0 {
		return 0, usagef("%s needs a value: %s %s", name, name, a.Kind.Form)
	}
	value, err := a.Kind.parse(words[0])
	if err != nil {
		return 0, usagef("%s %q: %s", name, words[0], err)
	}
	v.values[a.Name] = value
	return 2, nil
}

// nextPositional returns the next positional argument, or nil.
func (v *Invocation) nextPositional() *Arg {
	for i := range v.Command.Args {
		a := &v.Command.Args[i]
		if _, given := v.values[a.Name]; a.Key == "" && !given {
			return a
		}
	}
	return nil
}

// keys returns the keys that may still follow.
func (v *Invocation) keys() (keys []string) {
	for i := range v.Command.Args {
		a := &v.Command.Args[i]
		if _, given := v.values[a.Name]; a.Key != "" && !given && !v.excluded(a) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// given returns the keys that were given.
func (v *Invocation) given() (keys []string) {
	for i := range v.Command.Args {
		if a := &v.Command.Args[i]; a.Key != "" && v.values[a.Name] != nil {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// excluded reports whether an argument that excludes a was given.
func (v *Invocation) excluded(a *Arg) bool {
	return a.Together != "" && slices.ContainsFunc(v.Command.Args, func(o Arg) bool {
		_, given := v.values[o.Name]
		return given && o.Together == a.Together
	})
}

// oneOf returns the words as a choice.
func oneOf(words []string) string {
	if len(words) == 1 {
		return "write " + words[0]
	}
	return "write one of " + enumerate(words, "or")
}

// enumerate joins words with commas, the last one with a word.
func enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}
