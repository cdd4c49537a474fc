// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"
)

const badFiles = "testdata/bad.txt"

// badFile is one case of testdata/bad.txt.
type badFile struct{ name, toml, want string }

// readBadFiles returns the cases, and the text before the first.
func readBadFiles(tb testing.TB) (intro string, cases []badFile) {
	tb.Helper()
	data, err := os.ReadFile(badFiles)
	if err != nil {
		tb.Fatal(err)
	}
	parts := strings.Split(string(data), "\n=== ")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		toml, want, ok := strings.Cut("\n"+rest, "\n---\n")
		if !ok {
			tb.Fatalf("%s: case %q has no --- line", badFiles, name)
		}
		toml = strings.TrimPrefix(toml+"\n", "\n")
		cases = append(cases, badFile{name, toml, strings.TrimSpace(want)})
	}
	return parts[0], cases
}

func TestBadFiles(t *testing.T) {
	intro, cases := readBadFiles(t)
	if len(cases) < 70 {
		t.Errorf("%s: only %d cases were read", badFiles, len(cases))
	}
	var renewed strings.Builder
	renewed.WriteString(intro)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if _, err := Parse("f.toml", []byte(c.toml)); err != nil {
				got = err.Error()
			}
			if got == "" {
				t.Fatal("no problem found")
			}
			if got != c.want && !*update {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			renewed.WriteString("\n=== " + c.name + "\n" + c.toml + "---\n" + got + "\n")
		})
	}
	if *update {
		if err := os.WriteFile(badFiles, []byte(renewed.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryKeyHasABadFile checks that there is a bad file for each key.
func TestEveryKeyHasABadFile(t *testing.T) {
	_, cases := readBadFiles(t)
	for _, k := range everyKey() {
		named := func(want string) bool {
			for line := range strings.Lines(want) {
				_, what, _ := strings.Cut(line, ": "+k.table)
				if strings.Contains(what, k.name) || k.name == "addresses" && strings.Contains(what, "address ") {
					return true
				}
			}
			return false
		}
		found := false
		for _, c := range cases {
			found = found || named(c.want)
		}
		if !found {
			t.Errorf("no file in %s has a problem with %s.%s", badFiles, k.table, k.name)
		}
	}
}
