// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestFurtherPort examines a second port that is not there, and says of the machine nothing twice.
func TestFurtherPort(t *testing.T) {
	found := healthy(t).examined(t, "[policy]", "[[ib_port]]\nport = \"mlx5_9:1\"\nname = \"b\"\n[policy]")
	var of []string
	seen := map[string]bool{}
	for _, f := range found {
		if key := f.Check + f.Found; seen[key] {
			t.Errorf("twice: %+v", f)
		} else {
			seen[key] = true
		}
		if group, is := strings.CutSuffix(f.Group, " b"); is && f.Level == Error {
			of = append(of, group)
		}
	}
	if !slices.Contains(of, "sm") && !slices.Contains(of, "drivers") {
		var b bytes.Buffer
		_ = found.WriteText(&b, true)
		t.Errorf("no error of the second port:\n%s", &b)
	}
	if one := healthy(t).examined(t); slices.ContainsFunc(one, func(f Finding) bool { return strings.HasSuffix(f.Group, " b") }) {
		t.Errorf("with one port: %+v", one)
	}
}

// TestFurtherEthernetPort examines two Ethernet ports: each segment's MTU is compared with its own port's, and one that is
// not there is said of that port alone.
func TestFurtherEthernetPort(t *testing.T) {
	second := func(port string) []string {
		return []string{
			"[roce]", "[[roce]]\npkey = 0xffff", "ip = \"10.9.0.1\"", "ip = \"10.9.0.1\"\nsegment = \"af_packet:eth1/0\"",
			"[policy]", "[[roce]]\nport = \"af_packet:" + port + "\"\naddresses = [\"10.8.0.254/24\"]\nmtu = 1500\npkey = 0x8001\n[policy]",
		}
	}
	p := healthy(t)
	found := p.examined(t, second("eth9")...)
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Group == "mtu af_packet:eth9" && f.Level == Error && strings.Contains(f.Found, "no interface eth9")
	}) {
		var b bytes.Buffer
		_ = found.WriteText(&b, true)
		t.Errorf("nothing of eth9, which is not there:\n%s", &b)
	}
	for _, f := range found {
		if f.Level == Error && !strings.HasSuffix(f.Group, " af_packet:eth9") {
			t.Errorf("of the first port: %+v", f)
		}
	}
}
