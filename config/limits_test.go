// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// times repeats a text, with numbers from 1.
func times(n int, text string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(text, "%d", fmt.Sprint(i+1)))
	}
	return b.String()
}

// TestLimits reads as much as there may be of a thing, and one more, which alone is reported.
func TestLimits(t *testing.T) {
	host := "[[host]]\nip = \"10.9.0.%d\"\nside = \"roce\"\n"
	node := "[[host]]\nip = \"10.9.0.%d\"\nside = \"ib\"\ngid = \"fe80::%d\"\n"
	allowed := small + "[policy]\nallow = [\"10.9.0.0/24\"]\n"
	segment := "[[roce]]\nport = \"af_packet:eth1\"\nvlan = %d\naddresses = [\"10.9.0.254/24\"]\npkey = 0x800%d\n"
	for want, c := range map[string]struct {
		most int
		text func(n int) string
	}{
		"hosts 3 is less than the 4 hosts with side = \"roce\" in the file": {3, func(n int) string { return allowed + "[workers]\nhosts = 3\n" + times(n, host) }},
		"nodes 3 is less than the 4 hosts with side = \"ib\" in the file":   {3, func(n int) string { return allowed + "[workers]\nnodes = 3\n" + times(n, node) }},
		"proxy_qps_per_host 51 is more than proxy_qps 50": {50, func(n int) string {
			return small + fmt.Sprintf("[workers]\nproxy_qps = 50\nproxy_qps_per_host = %d\n", n)
		}},
		"this is segment number 9, and there can be 8": {8, func(n int) string {
			return times(n, segment) + "[ib]\nport = \"fabric:\"\npkey = 0x8001\n"
		}},
		"mtu 1505 is more than the 1504 that a tap can have": {1504, func(n int) string {
			return strings.Replace(small, `"ring"`, fmt.Sprintf("\"tap:dtap0\"\nmtu = %d", n), 1)
		}},
		"a bond of 9; name 2 to 8 ports": {8, func(n int) string {
			return strings.Replace(small, `"ring"`, `"bond:lacp`+times(n, ",af_packet:eth%d")+`"`, 1)
		}},
	} {
		if _, err := Parse("f.toml", []byte(c.text(c.most))); err != nil {
			t.Errorf("%d: %v", c.most, err)
		}
		_, err := Parse("f.toml", []byte(c.text(c.most+1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("one more than %d: %v; want %s", c.most, err, want)
		}
	}
}
