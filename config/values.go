// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// keep records the values of a single table, for Diff.
func (t *table) keep() {
	for _, k := range tableNamed(t.name).keys {
		t.p.cfg.values[t.valuesOf()+k.name] = k.canonical(t.vals[k.name])
	}
}

// canonical writes a value in the form of the file, so that equal values give equal texts; nil gives the default.
func (k *key) canonical(v any) string {
	switch v := v.(type) {
	case nil:
		return k.plainDefault()
	case int64:
		return k.show(v)
	case string:
		return fmt.Sprintf("%q", v)
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			out[i] = k.canonical(e)
		}
		if k.isSet() {
			slices.Sort(out)
		}
		return "[" + strings.Join(out, ", ") + "]"
	case map[string]any:
		to := map[int64]any{}
		for _, name := range sortedKeys(v) { // of several ways to write a number the last counts, as in mapping
			from, _ := strconv.ParseInt(name, 0, 64) // wrong ones have been reported
			to[from] = v[name]
		}
		var out []string
		for _, from := range slices.Sorted(maps.Keys(to)) {
			out = append(out, fmt.Sprintf("%d = %v", from, to[from]))
		}
		return "{ " + strings.Join(out, ", ") + " }"
	}
	return fmt.Sprint(v)
}

// isSet reports whether the order of a list's elements does not matter. That of the bridge's addresses does: the first
// is special.
func (k *key) isSet() bool { return len(k.words) > 0 || k.name == "allow" || k.name == "listen" }

// plainDefault returns the default in the form of the file, or in words.
func (k *key) plainDefault() string {
	switch d := k.def.(type) {
	case string:
		return fmt.Sprintf("%q", d)
	case int64:
		return k.show(d)
	case bool:
		return fmt.Sprint(d)
	case []string:
		return `["` + strings.Join(d, `", "`) + `"]`
	case []int64:
		return strings.ReplaceAll(fmt.Sprint(d), " ", ", ")
	}
	if k.noted != "" {
		return k.noted
	}
	return "none"
}
