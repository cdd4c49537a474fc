// SPDX-License-Identifier: Apache-2.0

package web

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// TestReference wants docs/metrics.md to be what the tables say.
func TestReference(t *testing.T) {
	const file = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(file, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != Reference() {
		t.Errorf("docs/metrics.md does not agree with the tables (%v); run go test ./app/web -run TestReference -update", err)
	}
}
