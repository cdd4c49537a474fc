// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// TOML returns a file that means this configuration. Keys that have their defaults are left out. Without secrets,
// neither are the token and Q_Keys in it, and comments take their places.
func (c *Config) TOML(secrets bool) string {
	var b strings.Builder
	for i := range tables {
		t := &tables[i]
		if !t.many {
			header := t.header()
			if t.name == "roce" && len(c.More) > 0 {
				header = "[[roce]]"
			}
			c.writeTable(&b, t, header, t.name+".", secrets)
			if t.name == "roce" {
				for n := range c.More {
					c.writeTable(&b, t, header, fmt.Sprintf("roce[%d].", n+1), secrets)
				}
			}
			continue
		}
		for _, e := range c.entries(t.name) {
			fmt.Fprintf(&b, "\n%s\n", t.header())
			for _, f := range fileFields(e) {
				writeKey(&b, findKey(t.name, f.key), f.value, secrets)
			}
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// writeTable writes the keys of a single table, or of a segment, that do not have their defaults.
func (c *Config) writeTable(b *strings.Builder, t *tableDoc, header, of string, secrets bool) {
	begun := false
	for i := range t.keys {
		k := &t.keys[i]
		if v := c.value(of, k); v != k.plainDefault() {
			if !begun {
				fmt.Fprintf(b, "\n%s\n", header)
				begun = true
			}
			writeKey(b, k, escapesOfTOML(v), secrets)
		}
	}
}

func writeKey(b *strings.Builder, k *key, value string, secrets bool) {
	if !secrets && (k.secret || k.name == "qkey") {
		fmt.Fprintf(b, "# %s is shown to admins only\n", k.name)
		return
	}
	fmt.Fprintf(b, "%s = %s\n", k.name, value)
}

// goEscape matches an escape of a Go string.
var goEscape = regexp.MustCompile(`\\(x[0-9a-f]{2}|.)`)

// escapesOfTOML writes the escapes that Go has and TOML has not in TOML's form.
func escapesOfTOML(s string) string {
	return goEscape.ReplaceAllStringFunc(s, func(e string) string {
		switch e[1] {
		case 'x':
			return `\u00` + e[2:]
		case 'a':
			return `\u0007`
		case 'v':
			return `\u000b`
		}
		return e
	})
}

// fileFields returns an entry's keys that are set, with their values in the form of the file.
func fileFields(e entry) (out []field) {
	for _, f := range e.fields() {
		if f.value == "" || !usesKey(e, f.key) {
			continue
		}
		switch k := findKey(tableOf(e), f.key); {
		case f.key == "rate":
			f.value = rateText(e)
		case k.kind == texts:
			f.value = `["` + strings.ReplaceAll(f.value, "+", `", "`) + `"]`
		case k.kind == text:
			f.value = escapesOfTOML(strconv.Quote(f.value))
		}
		out = append(out, f)
	}
	return out
}

// tableOf returns the name of an entry's table.
func tableOf(e entry) string {
	switch e.(type) {
	case IB:
		return morePorts
	case Host:
		return "host"
	case Group:
		return "group"
	case Range:
		return "range"
	case Service:
		return "service"
	}
	return "translate"
}

// usesKey reports whether a file may have a key of an entry: an MGID's form does not take each part.
func usesKey(e entry, key string) bool {
	r, isRange := e.(Range)
	if !isRange || key != "scope" {
		return true
	}
	return r.form.form == "rdmacm" || r.form.form == "ipoib" || strings.Contains(r.form.form, "{scope}")
}

// rateText returns the rate of a group in the largest unit that is exact: the file takes nine digits.
func rateText(e entry) string {
	var n uint64
	switch x := e.(type) {
	case Group:
		n = x.RatePPS
	case Range:
		n = x.Group.RatePPS
	}
	for _, u := range []struct {
		name string
		by   uint64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n%u.by == 0 {
			return fmt.Sprintf("\"%d%s pps\"", n/u.by, u.name)
		}
	}
	if n < 1e9 {
		return fmt.Sprintf("\"%d pps\"", n)
	}
	return fmt.Sprintf("\"%d.%09dG pps\"", n/1e9, n%1e9)
}
