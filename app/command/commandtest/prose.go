// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strings"
)

// prose matches a string that should be a number, a boolean, a list or null: with a unit, in words, or as Go prints it.
var prose = regexp.MustCompile(`^([-+]?\d+(\.\d+)?\s*[%a-zA-Zµ/]*|(\d+(\.\d+)?(h|ms?|µs|ns|s))+|\d+-\d+|in \d.*|\[[\d ,]*\]|yes|no|true|false|on|off|never|not known|-)$`)

// Prose returns the strings of JSON texts that should be other values, as "key: string". Names in hexadecimal, such as
// LIDs, are strings.
func Prose(text []byte) (found []string, err error) {
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			return found, nil
		} else if err != nil {
			return found, fmt.Errorf("%w: %s", err, text)
		}
		walk("", v, func(key, s string) {
			if _, address := netip.ParseAddr(s); address != nil && !strings.HasPrefix(s, "0x") && prose.MatchString(s) {
				found = append(found, key+": "+s)
			}
		})
	}
}

// walk calls see for each string.
func walk(key string, v any, see func(key, s string)) {
	switch x := v.(type) {
	case string:
		see(key, x)
	case []any:
		for _, e := range x {
			walk(key, e, see)
		}
	case map[string]any:
		for name, e := range x {
			walk(strings.TrimPrefix(key+"."+name, "."), e, see)
		}
	}
}
