// SPDX-License-Identifier: Apache-2.0

// Package command has the commands of the console. One table has every command: its words, its arguments, its role, its
// help. The console, "causeway ctl", completion, the manual page and docs/console.md are all made from it.
//
//	line ─▶ words ─▶ stages ─▶ the table's tree ─▶ arguments ─▶ Run ─▶ Result ─▶ | match ─▶ text or JSON
package command

import (
	"context"
	"slices"
	"strings"
)

// A Role is what a user may do.
type Role int

// The roles.
const (
	View  Role = iota // read
	Admin             // read and change
)

// String returns the role as the console names it.
func (r Role) String() string { return [...]string{"view", "admin"}[r] }

// A Command is one entry of the table.
type Command struct {
	Path    string // its words: "show hosts"
	Args    []Arg
	Role    Role
	Help    string // one line; no capital, no full stop
	Long    string // further sentences; may be ""
	Example string
	// Confirm is what happens, when an operator at a terminal is asked before.
	Confirm string
	// Run returns one result. Exactly one of Run, Stream and Local is set.
	Run func(ctx context.Context, c *Call) (Result, error)
	// Stream writes results until ctx ends.
	Stream func(ctx context.Context, c *Call, out Out) error
	// Local is a command about the session itself.
	Local Local
}

// Local names the commands that a session carries out itself.
type Local int

// The session's own commands.
const (
	LocalNone Local = iota
	LocalQuit
	LocalHelp
	LocalHistory
	LocalLogin
	LocalWatch
	LocalPaging
)

// An Arg is one argument of a command.
type Arg struct {
	Name     string // in Call: "prefix"
	Key      string // the word before the value; "": a positional argument
	Kind     Kind   // of the value; the zero Kind: a Key without a value
	Needed   bool
	Rest     bool // takes all remaining words, unparsed
	Secret   bool // the value is not for files
	Help     string
	Together string // arguments with the same value exclude each other
}

// A Call is one invocation of a command, with the values of its arguments.
type Call struct {
	Env  *Env
	Role Role
	User string // for the log
	// Remote: the user came over the network and is not known to this machine, so the command must not write files.
	Remote bool

	values map[string]any
	rest   []string
	picks  bool // the pipe selects from the result, which should be complete
}

// Has reports whether an argument was given.
func (c *Call) Has(name string) bool { _, ok := c.values[name]; return ok }

// Rest returns the words that an argument with Rest took.
func (c *Call) Rest() []string { return c.rest }

// value returns the value of an argument, or without when it was not given.
func value[T any](c *Call, name string, without T) T {
	if v, ok := c.values[name]; ok {
		return v.(T)
	}
	return without
}

// has reports whether an argument was given.
func (c *Call) has(name string) bool { _, ok := c.values[name]; return ok }

// Value returns the value of a text argument; "" when it was not given.
func (c *Call) Value(name string) string { return value(c, name, "") }

// An Out takes the results of a Stream command. An error means that the client has gone.
type Out interface {
	Show(Result) error // appends
	Draw(Result) error // replaces what was drawn before
	Size() (width, height int)
	// Raw returns a function that writes bytes unchanged; nil on a terminal.
	Raw() func([]byte) error
}

// usage returns the command's syntax: "show hosts [PREFIX] [limit N]".
func (c *Command) usage() string {
	words := []string{c.Path}
	for i := 0; i < len(c.Args); i++ {
		a := &c.Args[i]
		if a.Together == "" {
			words = append(words, a.usage(!a.Needed))
			continue
		}
		var any []string
		for ; i < len(c.Args) && c.Args[i].Together == a.Together; i++ {
			any = append(any, c.Args[i].usage(false))
		}
		i--
		words = append(words, "["+strings.Join(any, " | ")+"]")
	}
	return strings.Join(words, " ")
}

func (a *Arg) usage(optional bool) string {
	s := strings.TrimSpace(a.Key + " " + a.Kind.Form)
	if a.Rest {
		s += "…"
	}
	if optional {
		return "[" + s + "]"
	}
	return s
}

// A node is one word in the tree of commands.
type node struct {
	word     string
	command  *Command // nil: not a command by itself
	children []*node
}

// tree returns the tree of commands. Children are in alphabetical order.
func tree(commands []Command) *node {
	root := &node{}
	for i := range commands {
		at := root
		for _, w := range strings.Fields(commands[i].Path) {
			at = at.make(w)
		}
		at.command = &commands[i]
	}
	root.sort()
	return root
}

func (n *node) make(word string) *node {
	for _, c := range n.children {
		if c.word == word {
			return c
		}
	}
	c := &node{word: word}
	n.children = append(n.children, c)
	return c
}

func (n *node) sort() {
	slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.word, b.word) })
	for _, c := range n.children {
		c.sort()
	}
}

// words returns the words of the children.
func (n *node) words() (w []string) {
	for _, c := range n.children {
		w = append(w, c.word)
	}
	return w
}

// help returns the line of help for the word.
func (n *node) help(path string) string {
	if n.command != nil {
		return n.command.Help
	}
	return groupHelp[path]
}

// A Table is a set of commands and the tree to look them up in.
type Table struct {
	Commands []Command // in the order of the reference
	root     *node
}

// newTable returns a table of commands.
func newTable(commands []Command) *Table { return &Table{commands, tree(commands)} }
