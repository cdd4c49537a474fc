// SPDX-License-Identifier: Apache-2.0

package nesting_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"causeway/config/nesting"
)

func TestDecode(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for name, c := range map[string]struct {
		text string
		line int // 0: it is not too deep
	}{
		"arrays":             {"a = 1\nx = " + deep("[", "]", nesting.Most+1), 2},
		"as deep as may be":  {"x = " + deep("[", "]", nesting.Most), 0},
		"over lines":         {"x = " + deep("[\n", "]\n", nesting.Most+1), nesting.Most + 1},
		"never closed":       {"x = " + strings.Repeat("[", 200_000), 1},
		"inline tables":      {"x = " + strings.Repeat("{a = ", 100) + "1" + strings.Repeat("}", 100), 1},
		"a dotted key":       {"\n\n" + strings.Repeat("a.", 100) + "b = 1", 3},
		"a header":           {"[" + strings.Repeat("a.", 100_000) + "b]", 1},
		"many headers":       {strings.Repeat("[[a]]\nb = 1\n", 1000), 0},
		"many numbers":       {"x = [" + strings.Repeat("1.5, ", 1000) + "1]", 0},
		"a string":           {`x = "` + strings.Repeat("[", 100) + `\"` + strings.Repeat("[", 100) + `"`, 0},
		"a literal string":   {"x = '" + strings.Repeat("[", 100) + `\'`, 0},
		"a string of lines":  {"x = \"\"\"\n" + strings.Repeat("[", 100) + "\n\"\"\"\ny = " + deep("[", "]", 20), 4},
		"a literal of lines": {"x = '''\n\"" + strings.Repeat("[", 100) + "\n'''", 0},
		"a comment":          {"# " + strings.Repeat("[", 100) + "\nx = 1", 0},
		"a last comment":     {"#", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[string]any
			_, err := nesting.Decode(c.text, &got)
			if line := tooDeep(err); line != c.line || c.line == 0 && err != nil {
				t.Errorf("%v, want line %d", err, c.line)
			}
		})
	}
}

// tooDeep returns the line that an error says is nested too deeply; 0: it does not.
func tooDeep(err error) int {
	var at toml.ParseError
	if errors.As(err, &at) && strings.HasPrefix(at.Message, "nested") {
		return at.Position.Line
	}
	return 0
}

// TestShort: what is wrong may be long, and what is said of it is not.
func TestShort(t *testing.T) {
	for _, text := range []string{"a = " + strings.Repeat("9", 1<<20), "a = " + strings.Repeat("x", 1<<20), strings.Repeat("ä", 1<<19) + " = 1"} {
		var got struct{ A int }
		if _, err := nesting.Decode(text, &got); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20s…: %d bytes", text, len(fmt.Sprint(err)))
		}
	}
}

// FuzzDecode: whatever a text is, it is decoded or rejected, in the same way as by the library if it is not nested at all.
func FuzzDecode(f *testing.F) {
	f.Add("[a]\nb = \"\"\"x\n\"\"\" # y\n")
	f.Add("x = ['\\', \"\\\"\"]")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		var got map[string]any
		_, err := nesting.Decode(text, &got)
		if brackets := strings.Count(text, "[") + strings.Count(text, "{") + strings.Count(text, "."); brackets <= nesting.Most {
			if tooDeep(err) > 0 {
				t.Errorf("%d brackets and dots are too deep", brackets)
			}
		}
	})
}
