// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The kinds of change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one difference between two configurations: an entry that is added or removed, or a key with another value.
type Change struct {
	Where  string `json:"where"`         // "[[group]] 239.1.2.3", or "[roce]"
	What   string `json:"what"`          // Added, Removed or Changed
	Key    string `json:"key,omitempty"` // of what is changed
	Old    string `json:"old,omitempty"` // values in the form of the file; of an entry, all its keys
	New    string `json:"new,omitempty"`
	Detail string `json:"detail"` // key and values as text
	Live   bool   `json:"live"`   // a running bridge can apply it
}

func changed(where, key, old, to string, live bool) Change {
	return Change{Where: where, What: Changed, Key: key, Old: old, New: to, Detail: fmt.Sprintf("%s: %s -> %s", key, old, to), Live: live}
}

// String returns the change as one line.
func (c Change) String() string {
	mark := map[string]string{Added: "+", Removed: "-", Changed: "~"}[c.What]
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", mark, c.Where, c.Detail))
	if !c.Live {
		line += "  (needs a restart)"
	}
	return line
}

// hidden stands for a Q_Key where everybody can read.
const hidden = "hidden"

// withQKey matches a Q_Key in the words of an entry.
var withQKey = regexp.MustCompile(`\bqkey 0x[0-9a-f]+`)

// Public returns the change as those may see it who are not admins: a Q_Key is what keeps others out of a group.
func (c Change) Public() Change {
	if c.Key == "qkey" {
		return changed(c.Where, c.Key, hidden, hidden, c.Live)
	}
	for _, s := range []*string{&c.Old, &c.New, &c.Detail} {
		*s = withQKey.ReplaceAllString(*s, "qkey "+hidden)
	}
	return c
}

// Public returns the changes without Q_Keys.
func (cs Changes) Public() Changes {
	out := make(Changes, len(cs))
	for i, c := range cs {
		out[i] = c.Public()
	}
	return out
}

// Changes is a list of differences, in the order of the tables in keys.go.
type Changes []Change

// NeedRestart returns the changes that a running bridge cannot apply.
func (cs Changes) NeedRestart() Changes {
	return slices.DeleteFunc(slices.Clone(cs), func(c Change) bool { return c.Live })
}

// String returns one line for each change.
func (cs Changes) String() string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.String()
	}
	return strings.Join(lines, "\n")
}

// Diff returns the changes from old to to. It matches hosts by address or GID, groups by address and MGID, ranges and
// translations by prefix, services by ports. The order of entries does not matter.
func Diff(old, to *Config) Changes {
	var out Changes
	for i := range tables {
		t := &tables[i]
		switch {
		case t.name == "roce":
			out = append(out, diffSegments(t, old, to)...)
		case t.many:
			out = append(out, diffEntries(t, old.entries(t.name), to.entries(t.name))...)
		default:
			out = append(out, diffValues(t, t.header(), old, to, t.name+".", t.name+".")...)
		}
	}
	return out
}

// diffValues compares the keys of a single table, or of one segment; was and is are what their names begin with in values.
func diffValues(t *tableDoc, where string, old, to *Config, was, is string) (out Changes) {
	for i := range t.keys {
		k := &t.keys[i]
		a, b := old.value(was, k), to.value(is, k)
		if a != b {
			out = append(out, changed(where, k.name, k.open(a), k.open(b), k.live))
		}
	}
	return out
}

// value returns a key's value in the form of the file. A Config that was not parsed has the defaults.
func (c *Config) value(of string, k *key) string {
	if v, ok := c.values[of+k.name]; ok {
		return v
	}
	return k.plainDefault()
}

// open returns a value for logs and consoles; of a secret, only whether it is set.
func (k *key) open(value string) string {
	if k.secret && value != k.plainDefault() {
		return "(secret)"
	}
	return value
}

// An entry is one [[table]].
type entry interface {
	// named returns the entry's name in messages, and its keys for matching: another version of the same entry shares one.
	named() (name string, ids []string)
	// fields returns its keys with their values.
	fields() []field
}

type field struct{ key, value string }

// entries returns the entries of a [[table]]; nil for a single table.
func (c *Config) entries(table string) []entry {
	switch table {
	case morePorts:
		return listed(c.MoreIB)
	case "host":
		return listed(c.Hosts)
	case "group":
		return listed(c.Groups)
	case "range":
		return listed(c.Ranges)
	case "service":
		return listed(c.Services)
	case "translate":
		return listed(c.Translates)
	}
	return nil
}

func listed[E entry](es []E) []entry {
	out := make([]entry, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// diffEntries compares the entries of a [[table]]. Removed entries come first, because added ones may reuse their
// addresses.
func diffEntries(t *tableDoc, old, to []entry) (out Changes) {
	before := pair(old, to)
	stays := map[int]bool{}
	for _, i := range before {
		stays[i] = true
	}
	for i, e := range old {
		if !stays[i] {
			all := inWords(e.fields())
			out = append(out, Change{Where: where(t, e, old), What: Removed, Old: all, Detail: all, Live: t.live})
		}
	}
	for j, e := range to {
		i, was := before[j]
		if !was {
			all := inWords(e.fields())
			out = append(out, Change{Where: where(t, e, to), What: Added, New: all, Detail: all, Live: t.live})
			continue
		}
		a, b := old[i].fields(), e.fields()
		for n := range b {
			if a[n].value != b[n].value {
				out = append(out, changed(where(t, e, to), b[n].key, a[n].shown(), b[n].shown(), t.live))
			}
		}
	}
	return out
}

// pair finds for each new entry, by index, the old version of it. A match of the first key takes precedence over the
// others.
func pair(old, to []entry) map[int]int {
	pairs, taken := map[int]int{}, map[int]bool{}
	for round := range 3 {
		at := map[string]int{}
		for i, e := range old {
			_, ids := e.named()
			for n, id := range ids {
				if !taken[i] && (n == round || round == 2) {
					at[id] = i
				}
			}
		}
		for j, e := range to {
			_, ids := e.named()
			for n, id := range ids {
				i, there := at[id]
				if _, done := pairs[j]; there && !done && !taken[i] && (n == round || round == 2) {
					pairs[j], taken[i] = i, true
				}
			}
		}
	}
	return pairs
}

// where names an entry; a group whose address is not unique, with the MGID.
func where(t *tableDoc, e entry, among []entry) string {
	name, _ := e.named()
	n := 0
	for _, o := range among {
		if other, _ := o.named(); other == name {
			n++
		}
	}
	if g, ok := e.(Group); ok && n > 1 {
		name += " " + g.MGID.String()
	}
	return t.header() + " " + name
}

func (f field) shown() string {
	if f.value == "" {
		return "none"
	}
	return f.value
}

// inWords lists the fields that are set, except the first, which names the entry.
func inWords(fields []field) string {
	var out []string
	for _, f := range fields[1:] {
		if f.value != "" {
			out = append(out, f.key+" "+f.value)
		}
	}
	return strings.Join(out, ", ")
}
