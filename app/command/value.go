// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"causeway/ibside/ib"
)

// Values that text shows in units. JSON has the numbers.
type (
	// A Rate is a number per second.
	Rate float64
	// A Size is in bytes.
	Size uint64
	// A Share is a fraction from 0 to 1.
	Share float64
	// An Age is how long ago something happened; seconds in JSON. Negative: never.
	Age time.Duration
	// A worded value is said in words, and is a value in JSON.
	worded struct {
		text  string
		value any
	}
	// A notKnown is the value of what nobody counts or measures; null in JSON.
	notKnown struct{}
)

// String returns the words.
func (w worded) String() string { return w.text }

// String returns what text shows.
func (notKnown) String() string { return "not known" }

// never is the Age of what has not happened.
const never Age = -1

// ageOf returns the age of t; Never for the zero time.
func ageOf(t, now time.Time) Age {
	if t.IsZero() {
		return never
	}
	return Age(max(0, now.Sub(t)))
}

// String returns the rate with three digits: 0, 12, 1.23M.
func (r Rate) String() string { return scaled(float64(r), 1000, "", "k", "M", "G", "T") }

// String returns the size: 512 B, 1.50 MiB.
func (s Size) String() string {
	if s < 1024 {
		return strconv.Itoa(int(s)) + " B"
	}
	return scaled(float64(s), 1024, " B", " KiB", " MiB", " GiB", " TiB")
}

// String returns the share: 12.5%.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'f', 1, 64) + "%" }

// String returns the age: 250ms, 12s, 3m5s, 2h10m, 5d3h.
func (a Age) String() string {
	d := time.Duration(a)
	switch {
	case a < 0:
		return "never"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// scaled returns a number with its unit: three digits, unless the unit is the smallest.
func scaled(v, by float64, units ...string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	u := 0
	for ; v >= by && u < len(units)-1; u++ {
		v /= by
	}
	digits := 0
	if u > 0 {
		digits = max(0, 2-int(math.Log10(max(v, 1))))
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + units[u]
}

// jsonValue returns a value for JSON: numbers as numbers, times as RFC 3339, durations as seconds, rates as bits per
// second, all else as in text.
func jsonValue(v any) any {
	switch x := v.(type) {
	case nil, string, bool, int, int64, uint, uint8, uint16, uint32, uint64, []string, []int:
		return v
	case worded:
		return x.value
	case ib.Rate:
		return 1e6 * float64(x.Mbps())
	case notKnown:
		return nil
	case Rate:
		return finite(float64(x))
	case float64:
		return finite(x)
	case Share:
		return finite(float64(x))
	case Size:
		return uint64(x)
	case Age:
		if x < 0 {
			return nil
		}
		return time.Duration(x).Seconds()
	case time.Duration:
		return x.Seconds()
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	return cell(v)
}

// finite returns nil for infinities and NaN, which JSON does not have.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// cell returns a value as text, printable and on one line, because it may hold data that peers sent.
func cell(v any) string {
	var s string
	switch x := v.(type) {
	case nil:
		return "-"
	case string:
		s = x
	case []string:
		s = strings.Join(x, " ")
	case bool:
		s = map[bool]string{true: "yes", false: "no"}[x]
	case time.Time:
		s = x.Format("15:04:05.000")
	case []int:
		s = strings.Trim(fmt.Sprint(x), "[]")
	case time.Duration:
		s = precise(x).String()
	case fmt.Stringer:
		s = x.String()
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			return "?"
		}
		s = string(b)
	default:
		s = fmt.Sprint(v)
	}
	if s == "" {
		return "-"
	}
	return printable(s)
}

// precise rounds a duration to about three digits.
func precise(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit || unit > time.Second {
			return d.Round(unit)
		}
	}
}

// counted returns a number of things: 1 host, 2 hosts.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// printable replaces control characters, which could move a terminal's cursor or worse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// isNumber reports whether a value is aligned to the right.
func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, uint, uint8, uint16, uint32, uint64, float64, Rate, Size, Share, Age, time.Duration:
		return true
	}
	return false
}
