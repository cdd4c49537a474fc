// SPDX-License-Identifier: Apache-2.0

// Package command is what operators can say to a running bridge. One table has every command: its words, its arguments, who
// may give it, its help. The console, "causeway ctl", completion, the manual page and docs/console.md all come from it.
//
//	line ─▶ words ─▶ stages ─▶ the table's tree ─▶ arguments ─▶ Run ─▶ Result ─▶ | match ─▶ text or JSON
package command

import (
	"context"
	"slices"
	"strings"
)

// A Role is what somebody may do.
type Role int

// The roles.
const (
	View  Role = iota // look
	Admin             // change things, too
)

// String returns the role as the console names it.
func (r Role) String() string { return [...]string{"view", "admin"}[r] }

// A Command is one entry of the table.
type Command struct {
	Path    string // its words: "show hosts"
	Args    []Arg
	Role    Role
	Help    string // one line; no capital, no full stop
	Long    string // what else there is to know: sentences; may be ""
	Example string
	// Run answers at once. One of Run, Stream and Local is there.
	Run func(ctx context.Context, c *Call) (Result, error)
	// Stream goes on until ctx ends.
	Stream func(ctx context.Context, c *Call, out Out) error
	// Local is a command about the session itself.
	Local Local
}

// Local names the commands that a session answers itself.
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
	Key      string // the word that goes before the value; "": the value alone, by its place
	Kind     Kind   // of the value; the zero Kind: a Key alone
	Needed   bool
	Rest     bool // all words that are left, as they are
	Help     string
	Together string // of several arguments with the same, one at most is given
}

// A Call is one use of a command.
type Call struct {
	Env  *Env
	Role Role
	User string // who, for the log
	// Remote: who asks came by the network, and is not known to this machine. He writes no files here.
	Remote bool

	values map[string]any
	rest   []string
	picks  bool // its result is looked through: it should be whole
}

// Has reports whether an argument was given.
func (c *Call) Has(name string) bool { _, ok := c.values[name]; return ok }

// Rest returns the words that an argument with Rest took.
func (c *Call) Rest() []string { return c.rest }

// value returns an argument of the call's, or what it is without one.
func value[T any](c *Call, name string, without T) T {
	if v, ok := c.values[name]; ok {
		return v.(T)
	}
	return without
}

// Value returns an argument's text, for those who do not know the table: "" without one.
func (c *Call) Value(name string) string { return value(c, name, "") }

// An Out is where a command that goes on writes to. An error means that nobody reads any more.
type Out interface {
	Show(Result) error // after what was shown
	Draw(Result) error // in place of what was drawn before
	Size() (width, height int)
	// Raw writes bytes as they are, or is nil where that cannot be: on a person's terminal.
	Raw() func([]byte) error
}

// usage is how the command is written: "show hosts [PREFIX] [limit N]".
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

// A node is a word of the tree.
type node struct {
	word     string
	command  *Command // nil: more words must follow
	children []*node
}

// tree makes the tree of commands. Its children are in alphabetical order.
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

// words are the children's.
func (n *node) words() (w []string) {
	for _, c := range n.children {
		w = append(w, c.word)
	}
	return w
}

// help is the word's own line.
func (n *node) help(path string) string {
	if n.command != nil {
		return n.command.Help
	}
	return groupHelp[path]
}

// A Table is commands that can be looked up.
type Table struct {
	commands []Command
	root     *node
}

// NewTable makes a table of commands.
func NewTable(commands []Command) *Table { return &Table{commands, tree(commands)} }

// Commands returns all, in the order of the reference.
func (t *Table) Commands() []Command { return t.commands }
