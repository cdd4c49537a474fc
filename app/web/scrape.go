// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// A scrape collects samples by family: in the text format a family's samples are together, with HELP and TYPE before
// them.
type scrape struct {
	lines   map[string][]string // of each family, without its name
	unknown []string            // names that are not in the table; a test requires none
	known   map[string]bool
}

func newScrape() *scrape {
	s := &scrape{lines: map[string][]string{}, known: map[string]bool{}}
	for _, m := range allMetrics() {
		s.known[m.Name] = true
	}
	return s
}

// add adds a sample; labels are names and values in turn.
func (s *scrape) add(name string, value uint64, labels ...string) {
	s.sample(name, "", fmt.Sprint(value), labels)
}

// boolean adds 1 or 0.
func (s *scrape) boolean(name string, yes bool, labels ...string) { s.add(name, truth(yes), labels...) }

func truth(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func (s *scrape) sample(name, suffix, value string, labels []string) {
	if !s.known[name] {
		s.unknown = append(s.unknown, name)
		return
	}
	s.lines[name] = append(s.lines[name], suffix+labelText(labels)+" "+value)
}

// escaped escapes a label's value for the text format.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labelText(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escaped.Replace(labels[i+1])+`"`)
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// writeTo writes every family of the table, also those without samples.
func (s *scrape) writeTo(to io.Writer) {
	w := bufio.NewWriter(to)
	for _, m := range allMetrics() {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Kind)
		for _, line := range s.lines[m.Name] {
			w.WriteString(m.Name)
			w.WriteString(line)
			w.WriteByte('\n')
		}
	}
	writeProcess(w)
	_ = w.Flush() // the client has gone
}
