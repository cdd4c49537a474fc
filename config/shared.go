// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shared returns what all members of a fleet must have the same: a line each, sorted, of the form "WHERE KEY = VALUE", or
// "WHERE = KEYS AND VALUES" of an entry. Keys of the machine's, such as ports, addresses and cores, are not in it, nor is what has
// its default: so members of a version that knows a key agree with those of one that does not, as long as nobody uses it.
func (c *Config) Shared() []string {
	var out []string
	for i := range tables {
		t := &tables[i]
		switch {
		case t.name == "roce":
			for i, r := range c.Segments() {
				out = append(out, c.sharedOfSegment(t, i, &r)...)
			}
		case t.many:
			out = append(out, sharedEntries(t, c.entries(t.name))...)
		default:
			out = append(out, c.sharedValues(t, t.header(), t.name+".")...)
		}
	}
	slices.Sort(out)
	return out
}

// sharedValues are a single table's, or one segment's, whose keys' names begin with prefix in values.
func (c *Config) sharedValues(t *tableDoc, where, prefix string) (out []string) {
	for i := range t.keys {
		if k := &t.keys[i]; k.shared && c.value(prefix, k) != k.plainDefault() {
			out = append(out, fmt.Sprintf("%s %s = %s", where, k.name, c.value(prefix, k)))
		}
	}
	return out
}

// sharedOfSegment are a segment's, with the subnets of its addresses. It is known by its VLAN.
func (c *Config) sharedOfSegment(t *tableDoc, i int, r *RoCE) []string {
	where := fmt.Sprintf("[roce] vlan %d", r.VLAN)
	var subnets []string
	for _, a := range r.Addresses {
		subnets = append(subnets, a.Masked().String())
	}
	slices.Sort(subnets)
	return append(c.sharedValues(t, where, valuesOf(t, i)), fmt.Sprintf("%s subnets = %s", where, strings.Join(subnets, ", ")))
}

// sharedEntries are those of a [[table]]. Further InfiniBand ports, which each machine names, are known by their number; other
// bridges are others to each member.
func sharedEntries(t *tableDoc, all []entry) (out []string) {
	for i, e := range all {
		if h, is := e.(Host); is && h.Bridge {
			continue
		}
		fields := slices.DeleteFunc(e.fields(), func(f field) bool {
			k := findKey(t.name, f.key)
			return k == nil || !k.shared || f.value == k.plainDefault() || strconv.Quote(f.value) == k.plainDefault()
		})
		where, words := where(t, e, all), []string{}
		if t.name == morePorts {
			where = fmt.Sprintf("[[ib]] number %d", i+2)
		}
		for _, f := range fields {
			if f.value != "" {
				words = append(words, f.key+" "+f.value)
			}
		}
		if len(words) > 0 {
			out = append(out, where+" = "+strings.Join(words, ", "))
		}
	}
	return out
}

// SharedDiff says in what two members' Shared differ first, without Q_Keys; "": in nothing.
func SharedDiff(own, theirs []string) string {
	a, b := byName(own), byName(theirs)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, there := a[name]; !there {
			a[name] = ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			return fmt.Sprintf("%s is %s here, and %s there", name, inSight(name, a[name]), inSight(name, b[name]))
		}
	}
	return ""
}

// byName are the values of lines of Shared, by what is before them.
func byName(lines []string) map[string]string {
	values := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " = ")
		values[name] = value
	}
	return values
}

// inSight is a value for operators: of a key that is absent, its default.
func inSight(name, value string) string {
	words := strings.Fields(name)
	switch {
	case value != "":
		return withQKey.ReplaceAllString(value, "qkey "+hidden)
	case strings.HasPrefix(name, "[["):
		return "absent"
	}
	if k := findKey(strings.Trim(words[0], "[]"), words[len(words)-1]); k != nil && k.plainDefault() != "" {
		return k.plainDefault()
	}
	return "absent"
}
