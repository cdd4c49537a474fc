// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// keep records the values of a single table, for Diff.
func (t *table) keep() {
	for _, k := range tableNamed(t.name).keys {
		t.p.cfg.values[t.name+"."+k.name] = k.canonical(t.vals[k.name])
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
		var out []string
		for _, name := range sortedKeys(v) {
			out = append(out, fmt.Sprintf("%s = %v", name, v[name]))
		}
		return "{ " + strings.Join(out, ", ") + " }"
	}
	return fmt.Sprint(v)
}

// isSet reports whether the order of a list's elements does not matter. That of the bridge's addresses does: the first is
// special.
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
