// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A Result is the answer of a command: values, which are shown as aligned text or as JSON.
type Result struct {
	Parts []Part
}

// A Part is a table (Columns), a list of names and values (Pairs), or lines of text (Lines).
type Part struct {
	Name    string // the key in JSON, and the heading where there are several parts: "roce_to_ib"
	Columns []Column
	Rows    [][]any // each with a value for each column
	Pairs   []Pair
	Lines   []string
	Exact   bool   // Lines are a file's, and are not broken on a narrow screen
	Line    string // shown as text in place of Pairs
	Value   any    // written as JSON in place of Lines
	Empty   string // shown for a table without rows
	Note    string // a remark; not in JSON
	Total   int    // rows that exist, when some were left out; 0: none were
}

// A Column heads a table. Its key in JSON is its name in lower case, with underscores.
type Column struct {
	Name string
	Wide bool // broken, truncated or left out on a narrow screen; the last one is there always
	Rare bool // left out of text when no row has a value
}

// A Pair is a name and its value.
type Pair struct {
	Name  string
	Value any
}

// columns returns columns by their names. A suffix "…" marks a wide one, a suffix "?" behind that a rare one.
func columns(names ...string) (c []Column) {
	for _, n := range names {
		name, rare := strings.CutSuffix(n, "?")
		name, wide := strings.CutSuffix(name, "…")
		c = append(c, Column{name, wide, rare})
	}
	return c
}

// text returns a result of lines.
func text(lines ...string) Result { return Result{Parts: []Part{{Name: "text", Lines: lines}}} }

// table returns a result of one part.
func table(p Part) Result { return Result{Parts: []Part{p}} }

// key returns the JSON key of a name.
func key(name string) string {
	name = strings.Replace(name, "/s", " per second", 1)
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-' || r == '/':
			return '_'
		case r == '.' || r == '(' || r == ')':
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// An object is a JSON object whose keys keep their order.
type object []Pair

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(p.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(p.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON returns one object: the parts by their names, and the pairs of a part without a name. A table is an array
// of objects; "total" beside it is how many rows there are.
func (r Result) MarshalJSON() ([]byte, error) {
	out := object{}
	for i := range r.Parts {
		out = append(out, r.Parts[i].members()...)
	}
	return out.MarshalJSON()
}

// members returns what a part adds to the JSON object of its result.
func (p *Part) members() (o object) {
	pairs := object{}
	for _, x := range p.Pairs {
		pairs = append(pairs, Pair{key(x.Name), jsonValue(x.Value)})
	}
	switch {
	case p.Columns != nil:
		rows := make([]object, 0, len(p.Rows))
		for _, row := range p.Rows {
			x := object{}
			for i, v := range row {
				x = append(x, Pair{key(p.Columns[i].Name), jsonValue(v)})
			}
			rows = append(rows, x)
		}
		o = append(o, Pair{key(p.Name), rows})
		if p.Total > len(p.Rows) {
			o = append(o, Pair{key(p.Name) + "_total", p.Total})
		}
	case p.Value != nil:
		o = append(o, Pair{key(p.Name), p.Value})
	case p.Name == "":
		o = pairs
	case p.Pairs != nil:
		o = append(o, Pair{key(p.Name), pairs})
	case p.Lines != nil:
		o = append(o, Pair{key(p.Name), p.Lines})
	}
	return o
}
