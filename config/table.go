// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table reads the values of one table of the file against its keys' descriptions. A getter that
// meets a wrong value reports it and returns the default, so that reading goes on.
type table struct {
	p      *parser
	name   string // in keys
	path   string // in the file: "group[2]"
	who    string // in messages: "group 239.1.2.3"
	vals   map[string]any
	absent bool // reported as missing: its needed keys are not reported again
}

// fail reports a problem with a key of the table.
func (t *table) fail(key, format string, args ...any) {
	t.p.add(t.line(key), t.who, format, args...)
}

func (t *table) line(key string) int { return t.p.lineOf(t.path + "." + key) }

func (t *table) has(key string) bool { return t.vals[key] != nil }

// checkKeys reports unknown keys and missing ones.
func (t *table) checkKeys() {
	for _, name := range sortedKeys(t.vals) {
		if findKey(t.name, name) == nil {
			t.fail(name, "key %s is not known; %s", printable(name), suggest(name, keyNames(t.name), "the keys are"))
		}
	}
	for i := range keys {
		if k := &keys[i]; k.table == t.name && k.need && !t.has(k.name) {
			t.fail(k.name, "%s is missing; write %s = %s", k.name, k.name, k.example)
		}
	}
}

// text returns a string.
func (t *table) text(name string) string {
	k := findKey(t.name, name)
	def, _ := k.def.(string)
	v, ok := t.vals[name]
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		t.mistyped(k, v)
		return def
	}
	if !t.word(k, s) {
		return def
	}
	return s
}

// texts returns a list of strings.
func (t *table) texts(name string) []string {
	k := findKey(t.name, name)
	def, _ := k.def.([]string)
	v, ok := t.vals[name]
	if !ok {
		return def
	}
	list, ok := v.([]any)
	if !ok {
		t.mistyped(k, v)
		return def
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			t.failAt(name, i, "%s holds %s; write strings: %s = %s", name, describe(e), name, k.example)
			s = ""
		} else if !t.word(k, s) {
			s = ""
		}
		out = append(out, s) // a wrong element stays as "", so that indexes hold; callers skip it
	}
	return out
}

// failAt reports a problem with element i of a list.
func (t *table) failAt(key string, i int, format string, args ...any) {
	t.fail(fmt.Sprintf("%s[%d]", key, i), format, args...)
}

// word checks a string against the words that its key allows.
func (t *table) word(k *key, s string) bool {
	if len(k.words) == 0 || slices.Contains(k.words, s) {
		return true
	}
	t.fail(k.name, "%s %q is not known; use %s", k.name, s, alternatives(k.words))
	return false
}

// number returns an integer within its key's range.
func (t *table) number(name string) int64 {
	k := findKey(t.name, name)
	def, _ := k.def.(int64)
	v, ok := t.vals[name]
	if !ok {
		return def
	}
	n, ok := v.(int64)
	if !ok {
		t.mistyped(k, v)
		return def
	}
	if n < k.lo || n > k.hi {
		wrong := "is out of range"
		if n < k.lo && k.tooLow != "" {
			wrong = k.tooLow
		}
		t.fail(name, "%s %s %s; use %s", name, k.show(n), wrong, k.bounds())
		return def
	}
	return n
}

// numbers returns a list of integers; wrong ones are reported and left out.
func (t *table) numbers(name string) []int {
	k := findKey(t.name, name)
	var out []int
	v, ok := t.vals[name]
	if !ok {
		def, _ := k.def.([]int64)
		for _, n := range def {
			out = append(out, int(n))
		}
		return out
	}
	list, ok := v.([]any)
	if !ok {
		t.mistyped(k, v)
		return nil
	}
	for i, e := range list {
		switch n, ok := e.(int64); {
		case !ok:
			t.failAt(name, i, "%s holds %s; write numbers: %s = %s", name, describe(e), name, k.example)
		case n < k.lo || n > k.hi:
			t.failAt(name, i, "%s holds %d, which is out of range; use %s", name, n, k.bounds())
		default:
			out = append(out, int(n))
		}
	}
	return out
}

// truth returns a boolean.
func (t *table) truth(name string) bool {
	k := findKey(t.name, name)
	def, _ := k.def.(bool)
	v, ok := t.vals[name]
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		t.mistyped(k, v)
		return def
	}
	return b
}

// mapping calls set for each pair of a table from numbers to numbers.
func (t *table) mapping(name string, set func(from, to int)) {
	k := findKey(t.name, name)
	v, ok := t.vals[name]
	if !ok {
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.mistyped(k, v)
		return
	}
	for _, from := range sortedKeys(m) {
		at := name + "." + from
		i, err := strconv.ParseInt(from, 0, 64)
		if err != nil || i < 0 || i > k.keyHi {
			t.fail(at, "%s: %s is not a number from 0 to %d; write %s = %s", name, printable(from), k.keyHi, name, k.example)
			continue
		}
		n, ok := m[from].(int64)
		if !ok || n < k.lo || n > k.hi {
			t.fail(at, "%s: %d = %s is not a number from %d to %d", name, i, show(m[from]), k.lo, k.hi)
			continue
		}
		set(int(i), int(n))
	}
}

// mistyped reports a value of the wrong type.
func (t *table) mistyped(k *key, v any) {
	t.fail(k.name, "%s is %s; write %s: %s = %s", k.name, describe(v), k.kind, k.name, k.example)
}

// String names the type for messages.
func (k kind) String() string {
	return [...]string{text: "a string", number: "a whole number", truth: "true or false", texts: "a list of strings",
		numbers: "a list of numbers", mapping: "a table of numbers"}[k]
}

// bounds says the range of a number.
func (k *key) bounds() string { return k.show(k.lo) + " to " + k.show(k.hi) }

// show writes a number as the file would have it.
func (k *key) show(n int64) string {
	if k.hex && n > 0 {
		return fmt.Sprintf("%#x", n)
	}
	return strconv.FormatInt(n, 10)
}

// describe says of what type a value is, and which one.
func describe(v any) string {
	switch v.(type) {
	case string:
		return "a string, " + show(v)
	case int64, float64:
		return "a number, " + show(v)
	case bool:
		return "the truth value " + show(v)
	case time.Time:
		return "a date"
	case []any:
		return "a list"
	case []map[string]any:
		return "a list of tables"
	}
	return "a table"
}

// show writes a scalar as the file has it, shortened and printable.
func show(v any) string {
	if s, ok := v.(string); ok {
		if r := []rune(s); len(r) > 40 {
			s = string(r[:40]) + "..."
		}
		return strconv.Quote(s)
	}
	switch v.(type) {
	case int64, float64, bool:
		return fmt.Sprint(v)
	}
	return describe(v)
}

// printable returns a word as it is, or quoted where it would disturb a line.
func printable(s string) string {
	if s != "" && len(s) <= 60 && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }) {
		return s
	}
	return show(s)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
