// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The columns of the text: "cpu        warning  CPU 1 is not isolated".
const (
	groupWidth = 11
	levelWidth = 9
	textWidth  = 110 - groupWidth - levelWidth
)

// WriteText writes the findings by groups: problems with their commands, then hints, then one line for everything that
// is well, or with all a line for each.
func (fs Findings) WriteText(w io.Writer, all bool) error {
	var b strings.Builder
	for i := 0; i < len(fs); {
		n := i
		for n < len(fs) && fs[n].Group == fs[i].Group {
			n++
		}
		writeGroup(&b, fs[i:n], all)
		i = n
	}
	fmt.Fprintf(&b, "\n%s, %s, %s\n", plural(fs.count(Error), "error"), plural(fs.count(Warning), "warning"), plural(fs.count(Hint), "hint"))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeGroup writes the findings of one group, the worst first.
func writeGroup(b *strings.Builder, fs Findings, all bool) {
	name := fs[0].Group
	line := func(level Level, found string) {
		for _, part := range wrap(found, textWidth) {
			fmt.Fprintf(b, "%-*s%-*s%s\n", groupWidth, name, levelWidth, level, part)
			name, level = "", ""
		}
	}
	for _, level := range []Level{Error, Warning, Hint} {
		for _, f := range fs {
			if f.Level != level {
				continue
			}
			line(level, f.Found)
			for _, fix := range f.Fix {
				fmt.Fprintf(b, "%*sfix: %s\n", groupWidth+levelWidth, "", strings.TrimPrefix(fix, "# "))
			}
		}
	}
	well := fs.well()
	if !all && len(well) > 0 {
		line(Well, well.summary())
		return
	}
	for _, f := range well {
		line(Well, f.Found)
	}
}

// well returns the findings without a problem or hint.
func (fs Findings) well() (out Findings) {
	for _, f := range fs {
		if f.Level == Well {
			out = append(out, f)
		}
	}
	return out
}

// summary returns one line for findings without a problem: their texts, or else their names, or else their number.
func (fs Findings) summary() string {
	var said, checks []string
	for _, f := range fs {
		said = append(said, f.Found)
		if len(checks) == 0 || checks[len(checks)-1] != f.Check {
			checks = append(checks, f.Check)
		}
	}
	const more = " (-all says more)"
	for _, s := range []string{strings.Join(said, "; "), strings.Join(checks, ", ") + more} {
		if utf8.RuneCountInString(s) <= textWidth {
			return s
		}
	}
	return plural(len(fs), "thing") + " are as they should be" + more
}

// wrap breaks text between words into lines of at most width characters, and replaces what would disturb a terminal:
// anyone who may create an interface chooses its name.
func wrap(s string, width int) []string {
	s = printable(s)
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// printable replaces characters that are not printable by question marks.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// WriteFixes writes only the commands, for a shell, without those of hints.
func (fs Findings) WriteFixes(w io.Writer) error {
	for _, f := range fs {
		if f.Level == Hint {
			continue
		}
		for _, fix := range f.Fix {
			if _, err := fmt.Fprintln(w, fix); err != nil {
				return err
			}
		}
	}
	return nil
}
