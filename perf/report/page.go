// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// view is the data of the page.
type view struct {
	Title   string
	Summary []string
	Facts   [][2]string
	Figures []template.HTML
	Tables  []table
	Method  []string
	Notes   []string
	Profile string
}

// SavePage writes report.html and PNG plots into a folder, and returns the name of the page, which has the plots
// inside.
func (r *Report) SavePage(dir string) (string, error) {
	figs, err := r.figures()
	if err != nil {
		return "", err
	}
	v := view{
		Title:   "Causeway: " + r.Profile.Name,
		Summary: []string{r.line(), r.Device + "."},
		Facts:   r.facts(), Tables: r.tables(), Method: r.Method, Notes: r.allNotes(),
	}
	b, err := json.MarshalIndent(r.Profile, "", "  ")
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	v.Profile = string(b)
	for _, f := range figs {
		svg, err := f.svg(r.foot())
		if err != nil {
			return "", err
		}
		v.Figures = append(v.Figures, template.HTML(svg)) // trusted: gonum escapes the names in it
		picture, err := f.png(r.foot())
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, f.name+".png"), picture, 0o644); err != nil {
			return "", fmt.Errorf("report: %w", err)
		}
	}
	var text bytes.Buffer
	if err := page.Execute(&text, v); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	name := filepath.Join(dir, "report.html")
	if err := os.WriteFile(name, text.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return name, nil
}

// facts are host, versions and command.
func (r *Report) facts() [][2]string {
	h := &r.Host
	cpu := fmt.Sprintf("%s, %d CPUs", h.CPU, h.CPUs)
	if h.Hypervisor {
		cpu += ", virtual, maybe shared"
	}
	out := [][2]string{
		{"CPU", cpu}, {"Caches", h.Caches}, {"Memory", fmt.Sprintf("%d MiB; hugepages: %s", h.MemoryMiB, h.Hugepages)},
		{"System", h.System + ", kernel " + h.Kernel}, {"CPU governor", h.Governor}, {"Isolated CPUs", h.Isolated},
		{"Load before the run", h.Load}, {"Versions", r.versionLine()}, {"Command", strings.Join(r.Command, " ")},
	}
	var kept [][2]string
	for _, f := range out {
		if f[1] != "" {
			kept = append(kept, f)
		}
	}
	return kept
}
