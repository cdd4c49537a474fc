// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/config"
)

// An Invocation is a line that makes sense.
type Invocation struct {
	Command *Command
	Every   time.Duration // watch: how often; 0: once
	Pipe    Pipe

	values map[string]any
	rest   []string
}

// Call makes the call that the line asks for.
func (v *Invocation) Call(e *Env, r Role, user string) *Call {
	return &Call{Env: e, Role: r, User: user, values: v.values, rest: v.rest, picks: len(v.Pipe.match) > 0}
}

// Parse reads a line. A blank one is nil. An error is a *Usage.
func (t *Table) Parse(line string) (*Invocation, error) {
	words, open := split(line)
	if open {
		return nil, usagef("a quote is open: close it")
	}
	return t.parse(stages(words))
}

// ParseWords reads words that a shell has split: "|" is a word of its own.
func (t *Table) ParseWords(all []string) (*Invocation, error) {
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

// parseCommand reads what stands before the first bar.
func (t *Table) parseCommand(words []string) (*Invocation, error) {
	at, rest, err := t.find(words)
	if err != nil {
		return nil, err
	}
	if at.command == nil {
		if len(words) == 0 {
			return nil, usagef("a command is missing: %s", oneOf(at.words()))
		}
		return nil, usagef("%s what? %s", t.path(at, words), capital(oneOf(at.words())))
	}
	v := &Invocation{Command: at.command, values: map[string]any{}}
	if at.command.Local == LocalWatch {
		return t.parseWatch(rest)
	}
	return v, v.parseArgs(rest)
}

// find walks the tree as far as the words go, and returns those that are left.
func (t *Table) find(words []string) (*node, []string, error) {
	at := t.root
	for i, w := range words {
		if len(at.children) == 0 {
			return at, words[i:], nil
		}
		name, err := Choose(w, at.words())
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
		return nil, usagef("watch what? Write a command after it: watch 2 show rates")
	}
	v, err := t.parseCommand(words)
	switch {
	case err != nil:
		return nil, err
	case v.Every > 0 || v.Command.Run == nil || v.Command.Role != View:
		return nil, usagef("%s cannot be watched; commands that only look, and end, can", v.Command.Path)
	}
	v.Every = every
	return v, nil
}

// Choose returns the one of the known words that w is, or is the beginning of.
func Choose(w string, known []string) (string, error) {
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
		return "", usagef("%q can be %s: write more of it", w, enumerate(fit, "or"))
	}
	if near := config.Nearest(w, known); near != "" && (len(w) > 3 || near[0] == w[0]) { // "log" is not what "foo" was meant to be
		return "", usagef("there is no %q here; did you mean %s?", w, near)
	}
	return "", usagef("there is no %q here: %s", w, oneOf(known))
}

// parseArgs reads a command's arguments: values by their place, and keys with or without theirs in any order.
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

// parseArg reads one argument, and returns how many words it took.
func (v *Invocation) parseArg(words []string) (int, error) {
	if name, err := Choose(words[0], v.given()); err == nil {
		return 0, usagef("%s is there twice", name)
	}
	if a := v.nextPlace(); a != nil {
		if a.Rest {
			v.rest = words
			return len(words), nil
		}
		value, err := a.Kind.parse(words[0])
		if err == nil {
			v.values[a.Name] = value
			return 1, nil
		}
		if _, keyErr := Choose(words[0], v.keys()); a.Needed || keyErr != nil {
			return 0, usagef("%s %q: %s", a.Kind.Form, words[0], err)
		}
	}
	keys := v.keys()
	if len(keys) == 0 {
		return 0, usagef("%q is too much: %s", words[0], v.Command.usage())
	}
	name, err := Choose(words[0], keys)
	if err != nil {
		return 0, err
	}
	return v.parseKey(name, words[1:])
}

// parseKey reads the value of a key, and returns how many words both took.
func (v *Invocation) parseKey(name string, words []string) (int, error) {
	i := slices.IndexFunc(v.Command.Args, func(a Arg) bool { return a.Key == name })
	a := &v.Command.Args[i]
	if a.Kind.Parse == nil {
		v.values[a.Name] = true
		return 1, nil
	}
	if len(words) == 0 {
		return 0, usagef("%s lacks its value: %s %s", name, name, a.Kind.Form)
	}
	value, err := a.Kind.parse(words[0])
	if err != nil {
		return 0, usagef("%s %q: %s", name, words[0], err)
	}
	v.values[a.Name] = value
	return 2, nil
}

// nextPlace returns the argument whose place is next, or nil.
func (v *Invocation) nextPlace() *Arg {
	for i := range v.Command.Args {
		a := &v.Command.Args[i]
		if _, given := v.values[a.Name]; a.Key == "" && !given {
			return a
		}
	}
	return nil
}

// keys are those that may still come.
func (v *Invocation) keys() (keys []string) {
	for i := range v.Command.Args {
		a := &v.Command.Args[i]
		if _, given := v.values[a.Name]; a.Key != "" && !given && !v.excluded(a) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// given are the keys that have come.
func (v *Invocation) given() (keys []string) {
	for i := range v.Command.Args {
		if a := &v.Command.Args[i]; a.Key != "" && v.values[a.Name] != nil {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// excluded reports whether another argument of its kind was given.
func (v *Invocation) excluded(a *Arg) bool {
	return a.Together != "" && slices.ContainsFunc(v.Command.Args, func(o Arg) bool {
		_, given := v.values[o.Name]
		return given && o.Together == a.Together
	})
}

// oneOf lists what there is to choose from.
func oneOf(words []string) string {
	if len(words) == 1 {
		return "write " + words[0]
	}
	return "write one of " + enumerate(words, "or")
}

// enumerate joins words as a sentence does.
func enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}
