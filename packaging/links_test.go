// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// deadLinks returns the links of the pages of a folder that lead to no file, and how many links it looked at.
func deadLinks(t *testing.T, dir string) (dead []string, n int) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%s has %d pages (%v)", dir, len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			n++
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				dead = append(dead, filepath.Base(page)+": "+m[1])
			}
		}
	}
	return dead, n
}

// TestInstalledLinks lays the pages and examples out as the package does, in one folder, and follows their links.
func TestInstalledLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("debian/causeway.examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(examples)) {
		if err := os.WriteFile(filepath.Join(dir, "examples", filepath.Base(name)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		name, err := filepath.Rel("..", page)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("packaging/installed-page", name)
		cmd.Dir = ".."
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "docs/README.md" {
			name = "index.md"
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dead, n := deadLinks(t, dir)
	if len(dead) > 0 || n < 50 {
		t.Errorf("%d links, of which these lead nowhere:\n%s", n, strings.Join(dead, "\n"))
	}
}
