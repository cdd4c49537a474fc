// SPDX-License-Identifier: Apache-2.0

package command

import (
	"regexp"
	"strings"
)

// pipeStages are the words that can follow a bar.
var pipeStages = []struct{ Word, Form, Help string }{
	{"count", "", "show only how many rows or lines there are"},
	{"json", "", "show JSON"},
	{"match", "REGEXP", "show only rows and lines that match a regular expression"},
}

// A Pipe is what the stages after a command do to its result.
type Pipe struct {
	JSON  bool
	Count bool
	match []*regexp.Regexp
}

// add parses one stage.
func (p *Pipe) add(words []string) error {
	var known []string
	for _, s := range pipeStages {
		known = append(known, s.Word)
	}
	if len(words) == 0 {
		return usagef("nothing follows the bar: %s", oneOf(known))
	}
	name, err := choose(words[0], known)
	switch {
	case err != nil:
		return err
	case name == "match" && len(words) != 2:
		return usagef(`match takes one regular expression; put it in quotes if it has blanks or bars: | match "a|b"`)
	case name != "match" && len(words) > 1:
		return usagef("%q is unexpected after %s", words[1], name)
	}
	switch name {
	case "json":
		p.JSON = true
	case "count":
		p.Count = true
	case "match":
		re, err := regexp.Compile(words[1])
		if err != nil {
			return usagef("match %q is not a regular expression: %s", words[1], strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		p.match = append(p.match, re)
	}
	return nil
}

// Apply returns the result after all stages.
func (p *Pipe) Apply(r Result) Result {
	if len(p.match) > 0 {
		kept := Result{}
		for _, part := range r.Parts {
			if part, ok := p.matching(part); ok {
				kept.Parts = append(kept.Parts, part)
			}
		}
		r = kept
	}
	if !p.Count {
		return r
	}
	n := 0
	for _, part := range r.Parts {
		if part.Line != "" {
			n++
			continue
		}
		n += max(part.Total, len(part.Rows)) + len(part.Pairs) + len(part.Lines)
	}
	return Result{Parts: []Part{{Pairs: []Pair{{"count", n}}}}}
}

// matching returns the rows, pairs and lines of a part that match, and whether there are any.
func (p *Pipe) matching(part Part) (Part, bool) {
	if part.Line != "" {
		return part, p.matches(part.Line)
	}
	var rows [][]any
	for _, row := range part.Rows {
		var cells []string
		for _, v := range row {
			cells = append(cells, cell(v))
		}
		if p.matches(strings.Join(cells, "  ")) {
			rows = append(rows, row)
		}
	}
	var pairs []Pair
	for _, x := range part.Pairs {
		if p.matches(x.Name + "  " + cell(x.Value)) {
			pairs = append(pairs, x)
		}
	}
	var lines []string
	for _, line := range part.Lines {
		if p.matches(line) {
			lines = append(lines, line)
		}
	}
	part.Rows, part.Pairs, part.Lines, part.Total, part.Note, part.Empty = rows, pairs, lines, 0, "", ""
	return part, len(rows)+len(pairs)+len(lines) > 0
}

func (p *Pipe) matches(s string) bool {
	for _, re := range p.match {
		if !re.MatchString(s) {
			return false
		}
	}
	return true
}
