// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"causeway/config"
	"causeway/ibside/fabric"
)

// document is a page of the documentation.
type document struct {
	path   string // relative to the root
	text   string
	blocks []block
	inline []span // `code` outside of blocks
}

// block is lines of code, fenced or indented.
type block struct {
	line     int // of its first line
	language string
	text     string
}

// span is a piece of code within a line.
type span struct {
	line int
	text string
}

// made reports whether the document is generated from the source; the generator has tests of its own.
func (d *document) made() bool { return strings.HasPrefix(d.text, "<!-- Made") }

// documents returns README.md and all pages of docs.
func documents(t *testing.T) (all []*document) {
	t.Helper()
	dir := root(t)
	paths, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("docs has %d pages (%v): this test looks in the wrong place", len(paths), err)
	}
	for _, p := range append(paths, filepath.Join(dir, "README.md")) {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(dir, p)
		d := &document{path: rel, text: string(data)}
		d.scan()
		all = append(all, d)
	}
	return all
}

var (
	fence    = regexp.MustCompile("^```(\\w*)$")
	codeSpan = regexp.MustCompile("`([^`]+)`")
)

// scan finds the code.
func (d *document) scan() {
	var open *block
	fenced, blank := false, true
	for i, line := range strings.Split(d.text, "\n") {
		switch m := fence.FindStringSubmatch(line); {
		case m != nil && !fenced:
			d.blocks = append(d.blocks, block{line: i + 2, language: m[1]})
			open, fenced = &d.blocks[len(d.blocks)-1], true
		case m != nil:
			open, fenced = nil, false
		case fenced:
			open.text += line + "\n"
		case strings.HasPrefix(line, "    ") && (blank || open != nil):
			if open == nil {
				d.blocks = append(d.blocks, block{line: i + 1})
				open = &d.blocks[len(d.blocks)-1]
			}
			open.text += strings.TrimPrefix(line, "    ") + "\n"
		default:
			open = nil
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				d.inline = append(d.inline, span{i + 1, strings.ReplaceAll(m[1], `\|`, "|")})
			}
		}
		blank = line == ""
	}
}

func TestDocsScan(t *testing.T) {
	d := document{text: "a `b` c\n\n    x\n    y\n\n```toml\nz\n```\n| `p \\| q` |\n"}
	d.scan()
	if len(d.blocks) != 2 || d.blocks[0] != (block{3, "", "x\ny\n"}) || d.blocks[1] != (block{7, "toml", "z\n"}) {
		t.Errorf("blocks %+v", d.blocks)
	}
	if len(d.inline) != 2 || d.inline[0] != (span{1, "b"}) || d.inline[1] != (span{9, "p | q"}) {
		t.Errorf("inline %+v", d.inline)
	}
}

// needed is what a fragment of a configuration is completed with, where it lacks these keys.
var needed = []struct{ table, key, line string }{
	{"roce", "port", `port = "af_packet:eth1"`},
	{"roce", "addresses", `addresses = ["10.9.0.254/24"]`},
	{"ib", "port", `port = "fabric:"`},
	{"policy", "allow", `allow = ["10.9.0.0/24"]`},
}

// complete makes a whole configuration from a fragment.
func complete(text string) string {
	for _, n := range needed {
		if strings.Contains(text, "[["+n.table+"]]\n") { // each of them is whole
			continue
		}
		head := "[" + n.table + "]\n"
		if !strings.HasPrefix(text, head) && !strings.Contains(text, "\n"+head) {
			text += "\n" + head
		}
		_, body, _ := strings.Cut("\n"+text, "\n"+head)
		body, _, _ = strings.Cut(body, "\n[")
		if !regexp.MustCompile(`(?m)^` + n.key + ` *=`).MatchString(body) {
			text = strings.Replace("\n"+text, "\n"+head, "\n"+head+n.line+"\n", 1)[1:]
		}
	}
	return text
}

func TestDocsComplete(t *testing.T) {
	for _, text := range []string{"[[group]]\nip = \"239.1.2.3\"\n", "[roce]\nquerier = true\n", "[ib]\nport = \"mlx5_0:1\"\n\n[policy]\nunknown_source = \"bridge\"\n"} {
		if _, err := config.Parse("fragment", []byte(complete(text))); err != nil {
			t.Errorf("%q becomes %q: %v", text, complete(text), err)
		}
	}
	if _, err := config.Parse("fragment", []byte(complete("[[group]]\nport = 1\n"))); err == nil {
		t.Error("a fragment with a mistake passes")
	}
}

// TestDocsTOML checks that every configuration in the documents is valid, software subnets included.
func TestDocsTOML(t *testing.T) {
	found := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "toml" {
				continue
			}
			found++
			var err error
			if strings.Contains(b.text, "[fabric]") {
				file := filepath.Join(t.TempDir(), "subnet.toml")
				if err = os.WriteFile(file, []byte(b.text), 0o600); err == nil {
					_, err = fabric.Load(file)
				}
			} else {
				_, err = config.Parse(d.path, []byte(complete(b.text)))
			}
			if err != nil {
				t.Errorf("%s:%d: %v", d.path, b.line, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d configurations were found", found)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestDocsLinks checks that the targets of links within the project exist.
func TestDocsLinks(t *testing.T) {
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(d.text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := filepath.Join(root(t), filepath.Dir(d.path), target)
			if target == "" {
				file = filepath.Join(root(t), d.path)
			}
			data, err := os.ReadFile(file)
			if info, statErr := os.Stat(file); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", d.path, m[1], err)
			} else if anchor != "" && !hasHeading(string(data), anchor) {
				t.Errorf("%s: %s has no heading for the link %s", d.path, target, m[1])
			}
		}
	}
}

// hasHeading reports whether a page has a heading that an anchor names.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestDocsIndex checks that every page is in the index.
func TestDocsIndex(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root(t), "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		if name := filepath.Base(d.path); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}

// retired are words that the project once had for a proxy QP, a port, the bridge, a table, the datapath, a punted
// packet, a mirror, attached and a non-member. A benchmark, and make bench, are something else.
var retired = regexp.MustCompile(`(?i)\b(stand-?ins?|doors?|house|shelf|shelves|odd|sights?|hung|guests?|(the|a) bench)\b`)

// TestDocsRetiredWords checks that the documents use one name for each thing: the field's.
func TestDocsRetiredWords(t *testing.T) {
	for text, want := range map[string]bool{"a stand-in is made": true, "the Door": true, "the bench": true, "make bench": false,
		"a benchmark": false, "indoors": false} {
		if retired.MatchString(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for _, d := range documents(t) {
		for i, line := range strings.Split(d.text, "\n") {
			if word := retired.FindString(line); word != "" && !d.made() {
				t.Errorf("%s:%d: %q is not used any more: docs/README.md has the words", d.path, i+1, word)
			}
		}
	}
}
