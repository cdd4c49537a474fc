// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
)

// varying are the parts of outputs that are different each time or on each machine, and what to write in their place.
var varying = []struct {
	what  *regexp.Regexp
	write string
}{
	{regexp.MustCompile(`\b[0-9a-f][048c2ae6](:[0-9a-f]{2}){5}\b`), "MAC"}, // of hosts, not of groups
	{regexp.MustCompile(`(^|\s)\d\d:\d\d:\d\d(\.\d+)?\b`), "${1}CLOCK"},
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)? ?(ns|µs|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\d+ a second`), "N a second"},
	{regexp.MustCompile(`messages [0-9]{3,}`), "messages MANY"},
	{regexp.MustCompile(`[0-9]{3,} received`), "MANY received"},
	{regexp.MustCompile(`\d+ reordered( \(by up to \d+\))?`), "N reordered"},
	{regexp.MustCompile(`stream 0x[0-9a-f]+`), "stream NUMBER"},
	{regexp.MustCompile(`\bPSN \d+`), "PSN N"},
	{regexp.MustCompile(`\bUDP \d+ to`), "UDP N to"},
	{regexp.MustCompile(`proxy QP 0x[0-9a-f]+`), "proxy QP QPN"},
	{regexp.MustCompile(`gid=fe80::[0-9a-f:]+ lid=0x0002`), "gid=OWN lid=0x0002"},
	{regexp.MustCompile(`lid=0x[0-9a-f]{4}`), "lid=LID"},
	{regexp.MustCompile(`QPN 0x([1-9a-f][0-9a-f]{5}|0[1-9a-f][0-9a-f]{4}|00[1-9a-f][0-9a-f]{3})\b`), "QPN QPN"},
	{regexp.MustCompile(`qpn=0x([1-9a-f][0-9a-f]{5}|0[1-9a-f][0-9a-f]{4}|00[1-9a-f][0-9a-f]{3})\b`), "qpn=QPN"},
	{regexp.MustCompile(`  +`), " "},
}

var (
	tableHead = regexp.MustCompile(`^[A-Z]+( +[A-Z/]+)+$`)
	number    = regexp.MustCompile(`(^| )\d+(\.\d+)?[kMG]?%?( |$)`)
)

// settled returns an output without what varies: also without the numbers of tables, whose columns they are.
func settled(s string) string {
	for _, v := range varying {
		s = v.what.ReplaceAllString(s, v.write)
	}
	var lines []string
	inTable := false
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		inTable = (inTable || tableHead.MatchString(line)) && line != ""
		if inTable {
			for number.MatchString(line) { // neighbours share a blank
				line = number.ReplaceAllString(line, "${1}N$3")
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(strings.Fields(strings.Join(lines, "\n")), " ") // lines break where the values' lengths say
}

func TestDocsSettled(t *testing.T) {
	for _, c := range [][2]string{
		{"a6:54:77:82:75:46 to 01:00:5e:09:09:09", "MAC to 01:00:5e:09:09:09"},
		{"07:27:56  causeway  ready  up 6s  1 host", "CLOCK causeway ready up TIME 1 host"},
		{"up 1m2s  1 host", "up TIME 1 host"},
		{"A  B/S\nx    1\nx  2.5k\n\nc  1", "A B/S x N x N c 1"},
		{"QPN 0x000077 QPN 0x5fe640", "QPN 0x000077 QPN QPN"},
		{"length 130 bytes, 10 received, 1118 a second; 0 lost", "length 130 bytes, 10 received, N a second; 0 lost"},
	} {
		if got := settled(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
