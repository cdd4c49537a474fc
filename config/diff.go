// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// What becomes of an entry or a value.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one difference between two configurations: an entry that comes or goes, or a key with another value.
type Change struct {
	Where  string `json:"where"`         // "[[group]] 239.1.2.3", or "[roce]"
	What   string `json:"what"`          // Added, Removed or Changed
	Key    string `json:"key,omitempty"` // of what is changed
	Old    string `json:"old,omitempty"` // values as the file would have them; of whole entries, key by key
	New    string `json:"new,omitempty"`
	Detail string `json:"detail"` // key and values, for people
	Live   bool   `json:"live"`   // a running bridge can do it
}

func changed(where, key, old, to string, live bool) Change {
	return Change{Where: where, What: Changed, Key: key, Old: old, New: to, Detail: fmt.Sprintf("%s: %s -> %s", key, old, to), Live: live}
}

// String is the change in a line.
func (c Change) String() string {
	mark := map[string]string{Added: "+", Removed: "-", Changed: "~"}[c.What]
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", mark, c.Where, c.Detail))
	if !c.Live {
		line += "  (needs a restart)"
	}
	return line
}

// Changes is all differences, in the order of the tables in keys.go.
type Changes []Change

// NeedRestart returns those that a running bridge cannot do.
func (cs Changes) NeedRestart() Changes {
	return slices.DeleteFunc(slices.Clone(cs), func(c Change) bool { return c.Live })
}

// String is a line for each change.
func (cs Changes) String() string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.String()
	}
	return strings.Join(lines, "\n")
}

// Diff returns what turns one configuration into the other, entries by what names them: hosts by address or GID, groups by
// address and MGID, ranges and translations by prefix, services by ports. In which order entries stand makes no difference.
func Diff(old, to *Config) Changes {
	var out Changes
	for i := range tables {
		t := &tables[i]
		switch t.name {
		case "host":
			out = append(out, diffEntries(t, listed(old.Hosts), listed(to.Hosts), t.live)...)
		case "group":
			out = append(out, diffEntries(t, listed(old.Groups), listed(to.Groups), t.live)...)
		case "range":
			out = append(out, diffEntries(t, listed(old.Ranges), listed(to.Ranges), t.live)...)
		case "service":
			out = append(out, diffEntries(t, listed(old.Services), listed(to.Services), t.live)...)
		case "translate":
			out = append(out, diffEntries(t, listed(old.Translates), listed(to.Translates), t.live)...)
		default:
			out = append(out, diffValues(t, old, to)...)
		}
	}
	return out
}

// diffValues compares the keys of a single table.
func diffValues(t *tableDoc, old, to *Config) (out Changes) {
	for i := range keys {
		k := &keys[i]
		if k.table != t.name {
			continue
		}
		a, b := old.value(k), to.value(k)
		if a != b {
			out = append(out, changed(t.header(), k.name, k.open(a), k.open(b), k.isLive()))
		}
	}
	return out
}

// value returns a key's value as the file would have it. A Config that was not parsed has the defaults.
func (c *Config) value(k *key) string {
	if v, ok := c.values[k.table+"."+k.name]; ok {
		return v
	}
	return k.plainDefault()
}

// open returns a value as logs and consoles may show it: of a secret, whether there is one.
func (k *key) open(value string) string {
	if k.secret && value != k.plainDefault() {
		return "(secret)"
	}
	return value
}

// An entry is one of several in a [[table]].
type entry interface {
	// named returns what messages call it, and all that another state of the same entry may share with it.
	named() (name string, identities []string)
	// fields are its keys with their values.
	fields() []field
}

type field struct{ key, value string }

func listed[E entry](es []E) []entry {
	out := make([]entry, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// diffEntries compares the entries of a [[table]]: those that go come first, because others may get what was theirs.
func diffEntries(t *tableDoc, old, to []entry, live bool) (out Changes) {
	before := pair(old, to)
	stays := map[int]bool{}
	for _, i := range before {
		stays[i] = true
	}
	for i, e := range old {
		if !stays[i] {
			all := inWords(e.fields())
			out = append(out, Change{Where: where(t, e, old), What: Removed, Old: all, Detail: all, Live: live})
		}
	}
	for j, e := range to {
		i, was := before[j]
		if !was {
			all := inWords(e.fields())
			out = append(out, Change{Where: where(t, e, to), What: Added, New: all, Detail: all, Live: live})
			continue
		}
		a, b := old[i].fields(), e.fields()
		for n := range b {
			if a[n].value != b[n].value {
				out = append(out, changed(where(t, e, to), b[n].key, a[n].shown(), b[n].shown(), live))
			}
		}
	}
	return out
}

// pair finds for each entry the old one that it is another state of. The first identity counts before the others.
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

// where names an entry; of several groups with one address, with the MGID.
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

// inWords lists the fields that are set, but for the one that names the entry.
func inWords(fields []field) string {
	var out []string
	for _, f := range fields[1:] {
		if f.value != "" {
			out = append(out, f.key+" "+f.value)
		}
	}
	return strings.Join(out, ", ")
}
