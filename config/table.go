// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table reads the values of one table of the file and checks them against the descriptions of its keys. A getter
// reports a wrong value and returns the default, so that reading continues. What one section alone has is read by
// functions that use the getters: readIBPort, readGroupIP.
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

// checkKeys reports unknown keys and missing ones, but not a missing one that an unknown one was meant to be.
func (t *table) checkKeys() {
	meant := t.unknownKeys()
	for _, name := range tableNamed(t.name).keyNames(true) {
		if !t.has(name) && !meant[name] {
			t.fail(name, "%s is missing; write %s = %s", name, name, findKey(t.name, name).example)
		}
	}
}

// gone are keys of earlier versions, and what is in their place.
var gone = map[string]string{
	"range.idle": "a group ends when the querier's time is over, RFC 3376 §8.4",
}

// unknownKeys reports the keys that there are not, and returns those that they were meant to be.
func (t *table) unknownKeys() (meant map[string]bool) {
	meant = map[string]bool{}
	for _, name := range sortedKeys(t.vals) {
		if findKey(t.name, name) == nil {
			if why := gone[t.name+"."+name]; why != "" {
				t.fail(name, "key %s is there no more; remove it: %s", name, why)
				continue
			}
			known := tableNamed(t.name).keyNames(false)
			t.fail(name, "key %s is not known; %s", printable(name), suggest(name, known, "the keys are"))
			meant[Nearest(name, known)] = true
		}
	}
	return meant
}

// value returns a value of the TOML type T: the key's default when the key is missing or its value has another type,
// which is reported. set is true when the value is the file's.
func value[T any](t *table, name string) (v T, set bool) {
	k := findKey(t.name, name)
	v, _ = k.def.(T)
	raw, there := t.vals[name]
	if !there {
		return v, false
	}
	got, ok := raw.(T)
	if !ok {
		what := describe(raw)
		if k.secret {
			what, _, _ = strings.Cut(what, ",")
		}
		t.fail(name, "%s is %s; write %s: %s = %s", name, what, k.kind, name, k.example)
		return v, false
	}
	return got, true
}

// text returns a string.
func (t *table) text(name string) string {
	s, set := value[string](t, name)
	if k := findKey(t.name, name); set && !t.word(k, s) {
		s, _ = k.def.(string)
	}
	return s
}

// given returns a string that the file sets; ok is false when it does not, or when its type is wrong.
func (t *table) given(name string) (s string, ok bool) { return value[string](t, name) }

// elements yields the strings of a list with their indexes, without wrong ones, which are reported; the defaults when
// the key is missing.
func (t *table) elements(name string) iter.Seq2[int, string] {
	k := findKey(t.name, name)
	list, set := value[[]any](t, name)
	if !set {
		def, _ := k.def.([]string)
		return slices.All(def)
	}
	return func(yield func(int, string) bool) {
		for i, e := range list {
			s, ok := e.(string)
			if !ok {
				t.failAt(name, i, "%s holds %s; write strings: %s = %s", name, describe(e), name, k.example)
			}
			if ok && t.word(k, s) && !yield(i, s) {
				return
			}
		}
	}
}

// texts returns a list of strings.
func (t *table) texts(name string) []string {
	var out []string
	for _, s := range t.elements(name) {
		out = append(out, s)
	}
	return out
}

// isEmptyList reports whether a key is set to [].
func (t *table) isEmptyList(name string) bool {
	list, ok := t.vals[name].([]any)
	return ok && len(list) == 0
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
	if meant := Nearest(s, k.words); len(meant) > 3 { // of shorter ones, each is near to others
		t.fail(k.name, "%s %q is not known; did you mean %q?", k.name, s, meant)
		return false
	}
	t.fail(k.name, "%s %q is not known; use %s", k.name, s, alternatives(k.words))
	return false
}

// number returns an integer within its key's range.
func (t *table) number(name string) int64 {
	n, set := value[int64](t, name)
	k := findKey(t.name, name)
	if !set || k.lo <= n && n <= k.hi {
		return n
	}
	wrong := "is out of range"
	if n < k.lo && k.tooLow != "" {
		wrong = k.tooLow
	}
	t.fail(name, "%s %s %s; use %s", name, k.show(n), wrong, k.bounds())
	n, _ = k.def.(int64)
	return n
}

// numbers returns a list of integers without wrong ones, which are reported.
func (t *table) numbers(name string) []int {
	k := findKey(t.name, name)
	var out []int
	list, set := value[[]any](t, name)
	if !set {
		def, _ := k.def.([]int64)
		for _, n := range def {
			out = append(out, int(n))
		}
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
	b, _ := value[bool](t, name)
	return b
}

// mapping calls set for each pair of a table from numbers to numbers.
func (t *table) mapping(name string, set func(from, to int)) {
	k := findKey(t.name, name)
	m, _ := value[map[string]any](t, name)
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

// String names the type for messages.
func (k kind) String() string {
	return [...]string{text: "a string", number: "a whole number", truth: "true or false", texts: "a list of strings",
		numbers: "a list of numbers", mapping: "a table of numbers"}[k]
}

// bounds returns the range of a number as text.
func (k *key) bounds() string { return k.show(k.lo) + " to " + k.show(k.hi) }

// show writes a number in the form of the file.
func (k *key) show(n int64) string {
	if k.hex && n > 0 {
		return fmt.Sprintf("%#x", n)
	}
	return strconv.FormatInt(n, 10)
}

// describe returns a value's type and value as text.
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

// show writes a scalar in the form of the file, shortened and printable.
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

// printable returns a word, quoted if it is long or has blanks or control characters.
func printable(s string) string {
	if s != "" && len(s) <= 60 && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }) {
		return s
	}
	return show(s)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
