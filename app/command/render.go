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

// Text returns the result as aligned lines that are shorter than width columns, as far as that goes; 0: as long as they
// are.
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
	hang := func(lines ...string) {
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		for _, line := range Hang(lines, width) {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	if p.Exact {
		for _, line := range p.Lines {
			fmt.Fprintln(b, printable(line))
		}
	} else {
		hang(slices.Clone(p.Lines)...)
	}
	if p.Line != "" {
		hang(p.Line)
	} else {
		p.writePairs(b)
	}
	switch {
	case p.Columns == nil:
	case len(p.Rows) == 0 && p.Empty != "":
		hang(p.Empty)
	case len(p.Rows) > 0:
		p.writeTable(b, width)
	}
	if p.Total > len(p.Rows) {
		fmt.Fprintf(b, "(%d of %d; \"limit N\" shows more)\n", len(p.Rows), p.Total)
	}
	if p.Note != "" {
		hang(p.Note)
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

// Cells returns the table as text, printable and each on one line: a row of cells for each row, and which columns hold
// numbers. Rare columns without values are left out.
func (p *Part) Cells() (heads []string, rows [][]string, numbers []bool) {
	p = p.shown()
	numbers = make([]bool, len(p.Columns))
	for _, c := range p.Columns {
		heads = append(heads, c.Name)
	}
	for _, row := range p.Rows {
		var line []string
		for i, v := range row {
			line = append(line, cell(v))
			numbers[i] = numbers[i] || isNumber(v)
		}
		rows = append(rows, line)
	}
	return heads, rows, numbers
}

// writeTable writes aligned columns, numbers to the right.
func (p *Part) writeTable(b *strings.Builder, width int) {
	p = p.shown()
	heads, rows, right := p.Cells()
	for i, h := range heads {
		heads[i] = strings.ToUpper(h)
	}
	cells := append([][]string{heads}, rows...)
	widths, left := p.widths(cells, right, width)
	for _, line := range cells {
		writeRow(b, line, widths, right)
	}
	if left != nil {
		fmt.Fprintf(b, "(%s: left out on this narrow screen)\n", strings.Join(left, ", "))
	}
}

// A wide column is at least so wide, else it says nothing.
const wideLeast = 12

// widths returns the width of each column. Wide columns become narrower until the table fits, but not those of numbers,
// on the right. If that is not enough, they are left out, with a width of -1, but for the last one.
func (p *Part) widths(cells [][]string, right []bool, width int) (widths []int, left []string) {
	widths = make([]int, len(p.Columns))
	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	if width == 0 {
		return widths, nil
	}
	over := 2*(len(widths)-1) - width + 1
	for _, w := range widths {
		over += w
	}
	for i, c := range slices.Backward(p.Columns) { // the last one is mostly of words
		if least := max(wideLeast, len(c.Name)); over > 0 && c.Wide && !right[i] && widths[i] > least {
			excess := min(over, widths[i]-least)
			widths[i] -= excess
			over -= excess
		}
	}
	for i, c := range p.Columns {
		if over > 0 && c.Wide && i < len(p.Columns)-1 {
			over -= widths[i] + 2
			widths[i] = -1
			left = append(left, c.Name)
		}
	}
	return widths, left
}

// writeRow writes a row. A cell that is too wide is broken between its words; a single word is truncated.
func writeRow(b *strings.Builder, line []string, widths []int, right []bool) {
	cells, high := make([][]string, len(line)), 1
	for i, c := range line {
		switch {
		case widths[i] < 0 || utf8.RuneCountInString(c) <= widths[i]:
			cells[i] = []string{c}
		case strings.Contains(c, " "):
			cells[i] = broken(c, widths[i])
		default:
			cells[i] = []string{string([]rune(c)[:widths[i]-1]) + "…"}
		}
		high = max(high, len(cells[i]))
	}
	for n := range high {
		var row strings.Builder
		for i, c := range cells {
			if widths[i] < 0 {
				continue
			}
			text := ""
			if n < len(c) {
				text = c[n]
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if row.Len() > 0 {
				row.WriteString("  ")
			}
			if right[i] {
				row.WriteString(pad + text)
			} else {
				row.WriteString(text + pad)
			}
		}
		b.WriteString(strings.TrimRight(row.String(), " "))
		b.WriteByte('\n')
	}
}
