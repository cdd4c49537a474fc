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
