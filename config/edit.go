// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// edited returns the text of a file with the entries of another configuration: those that are gone are cut out, those that are new are
// added after the last of their kind, and all else stays as it is. false: more than entries is different, or they are written in another way
// than each under a header of its own.
func edited(path string, old []byte, to *Config) (text []byte, ok bool) {
	from, err := Parse(path, old)
	if err != nil {
		return nil, false
	}
	d := newTextFile(string(old))
	for i := range tables {
		t := &tables[i]
		if !t.many || t.name == morePorts { // ports do not come and go
			continue
		}
		was, is := from.entries(t.name), to.entries(t.name)
		if d.count(t.name) != len(was) {
			return nil, false
		}
		last, before, after := "", textsOf(was), textsOf(is)
		for n, e := range was {
			last = fmt.Sprintf("%s[%d]", t.name, n)
			if !after[textOf(e)] {
				d.cut(last)
			}
		}
		for _, e := range is {
			if !before[textOf(e)] {
				d.addAfter(last, t.header()+"\n"+to.byHand(e))
			}
		}
	}
	text = []byte(d.String())
	if strings.Contains(string(old), "\r\n") {
		text = []byte(strings.ReplaceAll(strings.ReplaceAll(d.String(), "\r\n", "\n"), "\n", "\r\n"))
	}
	again, err := Parse(path, text)
	return text, err == nil && len(Diff(to, again)) == 0
}

// textOf tells entries from each other.
func textOf(e entry) string { return fmt.Sprint(e.fields()) }

func textsOf(all []entry) map[string]bool {
	texts := map[string]bool{}
	for _, e := range all {
		texts[textOf(e)] = true
	}
	return texts
}

// byHand returns the keys of an entry as one would write them: without defaults, and without an MGID that the address makes.
func (c *Config) byHand(e entry) string {
	var b strings.Builder
	g, isGroup := e.(Group)
	const linkLocal = 2
	for _, f := range fileFields(e) {
		k := findKey(tableOf(e), f.key)
		switch {
		case f.value == k.plainDefault():
		case k.name == "mgid" && isGroup && g.MGID == ib.MGIDIPoIB(g.IP, g.PKey, linkLocal):
			writeKey(&b, k, `"ipoib"`, true)
		case k.name == "qkey" && isGroup && g.QKey == ib.QKeyRDMAUDP:
		case k.name == "mgid" && isGroup && g.MGID == ib.MGIDRDMACM(g.IP, g.PKey, linkLocal):
		case k.name == "pkey" && isGroup && g.PKey == c.IB.PKey && len(c.More) == 0:
		default:
			writeKey(&b, k, f.value, true)
		}
	}
	return b.String()
}

// isHeader matches a table's header; an element of an array that is a list itself matches, too, and ends no entry that is cut or added to.
var isHeader = regexp.MustCompile(`^\s*\[+[^\[\],]+\]+\s*(#.*)?\s*$`)

// A textFile is a TOML file as lines, of which some are cut out and to some of which text is added.
type textFile struct {
	lines   []string
	headers []int          // their lines, from 0, in order
	at      map[string]int // headers by path
	added   map[int]string // by the line that it comes after; -1: before the first one
}

func newTextFile(text string) *textFile {
	d := &textFile{lines: strings.SplitAfter(text, "\n"), at: map[string]int{}, added: map[int]string{}}
	for path, line := range scanLines(text) {
		if !isHeader.MatchString(d.lines[line-1]) {
			continue
		}
		d.headers = append(d.headers, line-1)
		if !strings.Contains(path, ".") {
			d.at[path] = line - 1
		}
	}
	slices.Sort(d.headers)
	return d
}

// count returns how many headers a table has.
func (d *textFile) count(table string) (n int) {
	for ; ; n++ {
		if _, there := d.at[table+"["+strconv.Itoa(n)+"]"]; !there {
			return n
		}
	}
}

// span returns the lines of an entry, without the comments and the empty lines that come before the next header.
func (d *textFile) span(path string) (begin, end int) {
	begin, end = d.at[path], len(d.lines)
	if i, _ := slices.BinarySearch(d.headers, begin); i+1 < len(d.headers) {
		end = d.headers[i+1]
	}
	for end > begin+1 {
		if line := strings.TrimSpace(d.lines[end-1]); line != "" && line[0] != '#' {
			break
		}
		end--
	}
	return begin, end
}

// cut takes an entry out, with an empty line after it.
func (d *textFile) cut(path string) {
	begin, end := d.span(path)
	if end < len(d.lines) && strings.TrimSpace(d.lines[end]) == "" {
		end++
	}
	for i := begin; i < end; i++ {
		d.lines[i] = ""
	}
}

// addAfter adds text after an entry that was there; "": at the end.
func (d *textFile) addAfter(path, text string) {
	at := len(d.lines) - 1
	if path != "" {
		_, end := d.span(path)
		at = end - 1
	}
	d.added[at] += "\n" + text
}

func (d *textFile) String() string {
	var b strings.Builder
	for i, line := range d.lines {
		b.WriteString(line)
		if more := d.added[i]; more != "" {
			if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
				b.WriteString("\n")
			}
			b.WriteString(more)
		}
	}
	return b.String()
}
