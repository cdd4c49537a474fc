// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// JSON returns the result as indented JSON, or on one line.
func (r Result) JSON(oneLine bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if !oneLine {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	return b.Bytes(), nil
}

// Text returns the result as aligned lines. Tables are truncated to width columns, the wide columns first; 0: not
// truncated.
func (r Result) Text(width int) string {
	var b strings.Builder
	for i := range r.Parts {
		p := &r.Parts[i]
		if i > 0 && b.Len() > 0 && p.isShown() {
			b.WriteByte('\n')
		}
		if len(r.Parts) > 1 && p.Name != "" && p.isShown() {
			fmt.Fprintf(&b, "%s:\n", strings.ReplaceAll(p.Name, "_", " "))
		}
		p.write(&b, width)
	}
	return b.String()
}

// isShown reports whether the part has anything to show.
func (p *Part) isShown() bool {
	return len(p.Rows)+len(p.Pairs)+len(p.Lines) > 0 || p.Columns != nil && p.Empty != "" || p.Note != ""
}

func (p *Part) write(b *strings.Builder, width int) {
	for _, line := range p.Lines {
		b.WriteString(printable(line))
		b.WriteByte('\n')
	}
	if p.Line != "" {
		fmt.Fprintln(b, printable(p.Line))
	} else {
		p.writePairs(b)
	}
	switch {
	case p.Columns == nil:
	case len(p.Rows) == 0 && p.Empty != "":
		fmt.Fprintln(b, p.Empty)
	case len(p.Rows) > 0:
		p.writeTable(b, width)
	}
	if p.Total > len(p.Rows) {
		fmt.Fprintf(b, "(%d of %d; \"limit N\" shows more)\n", len(p.Rows), p.Total)
	}
	if p.Note != "" {
		fmt.Fprintln(b, printable(p.Note))
	}
}

func (p *Part) writePairs(b *strings.Builder) {
	widest := 0
	for _, x := range p.Pairs {
		widest = max(widest, utf8.RuneCountInString(x.Name))
	}
	for _, x := range p.Pairs {
		fmt.Fprintf(b, "  %-*s  %s\n", widest, x.Name, cell(x.Value))
	}
}

// shown returns the part without empty rare columns.
func (p *Part) shown() *Part {
	out := &Part{Rows: make([][]any, len(p.Rows))}
	for i, c := range p.Columns {
		if c.Rare && !slices.ContainsFunc(p.Rows, func(row []any) bool { return row[i] != nil }) {
			continue
		}
		out.Columns = append(out.Columns, c)
		for n, row := range p.Rows {
			out.Rows[n] = append(out.Rows[n], row[i])
		}
	}
	return out
}

// writeTable writes aligned columns, numbers to the right.
func (p *Part) writeTable(b *strings.Builder, width int) {
	p = p.shown()
	cells := make([][]string, 0, len(p.Rows)+1)
	var heads []string
	for _, c := range p.Columns {
		heads = append(heads, strings.ToUpper(c.Name))
	}
	cells = append(cells, heads)
	right := make([]bool, len(p.Columns))
	for _, row := range p.Rows {
		var line []string
		for i, v := range row {
			line = append(line, cell(v))
			right[i] = right[i] || isNumber(v)
		}
		cells = append(cells, line)
	}
	widths := p.widths(cells, width)
	for _, line := range cells {
		writeRow(b, line, widths, right)
	}
}

// widths returns the width of each column. Wide columns are truncated until the table fits.
func (p *Part) widths(cells [][]string, width int) []int {
	widths := make([]int, len(p.Columns))
	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	if width == 0 {
		return widths
	}
	over := 2*(len(widths)-1) - width + 1
	for _, w := range widths {
		over += w
	}
	for i, c := range p.Columns {
		if least := max(8, len(c.Name)); over > 0 && c.Wide && widths[i] > least {
			excess := min(over, widths[i]-least)
			widths[i] -= excess
			over -= excess
		}
	}
	return widths
}

func writeRow(b *strings.Builder, line []string, widths []int, right []bool) {
	var row strings.Builder
	for i, c := range line {
		n := utf8.RuneCountInString(c)
		if n > widths[i] {
			c, n = string([]rune(c)[:widths[i]-1])+"…", widths[i]
		}
		pad := strings.Repeat(" ", widths[i]-n)
		if i > 0 {
			row.WriteString("  ")
		}
		if right[i] {
			row.WriteString(pad + c)
		} else {
			row.WriteString(c + pad)
		}
	}
	b.WriteString(strings.TrimRight(row.String(), " "))
	b.WriteByte('\n')
}
