// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"causeway/config/nesting"
)

// maxFile is the largest file in bytes, so that a wrong path does not exhaust memory.
const maxFile = 1 << 20

// Load reads and checks the file at path. An error is of type Problems unless the file cannot be read.
func Load(path string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	c.loadedFrom(originOf(path, data))
	return c, nil
}

// read reads a file, no more of it than shows that it is too large.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// fromFolder makes a file relative to that of the configuration, not to the working directory.
func fromFolder(file *string, path string) {
	if *file != "" && !filepath.IsAbs(*file) {
		*file = filepath.Join(filepath.Dir(path), *file)
	}
}

// unreadable says why a file cannot be read, and what to do.
func unreadable(path string, err error) error {
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("config: %s: there is no such file; name another, or begin with what \"causeway example\" prints", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("config: %s: this user may not read it; use sudo, or change its permissions", path)
	case errors.Is(err, unix.EISDIR):
		return fmt.Errorf("config: %s: this is a folder; name a file", path)
	case errors.As(err, &cause):
		return fmt.Errorf("config: %s: %w", path, cause.Err)
	}
	return fmt.Errorf("config: %w", err)
}

// Parse turns data into a Config; messages use name for the file. An error is of type Problems: all problems of the
// file, in line order.
func Parse(name string, data []byte) (*Config, error) {
	p := parser{reading: reading{file: name, cfg: &Config{values: map[string]string{}}, tables: map[string][]*table{}}}
	if len(data) > maxFile {
		p.add(0, "", "more than %d bytes are too many for a configuration", maxFile)
		return nil, p.problems
	}
	var doc map[string]any
	if _, err := nesting.Decode(string(data), &doc); err != nil {
		p.syntax(err)
		return nil, p.problems
	}
	p.lines = scanLines(string(data))
	p.document(doc)
	if len(p.problems) > 0 {
		p.problems.sortByLine()
		return nil, p.problems
	}
	Problems(p.cfg.Notes).sortByLine()
	return p.cfg, nil
}

// A reading is what has been read of one file.
type reading struct {
	file   string
	cfg    *Config
	tables map[string][]*table // of cfg.Hosts, cfg.Groups and so on, entry by entry, for the cross checks
}

// parser turns one file into a Config.
type parser struct {
	reading
	lines    map[string]int
	problems Problems
}

// add reports a problem.
func (p *parser) add(line int, who, format string, args ...any) {
	problem := Problem{p.file, line, who, fmt.Sprintf(format, args...)}
	if n := len(p.problems); n > 0 && p.problems[n-1] == problem {
		return // a key may be read more than once
	}
	p.problems = append(p.problems, problem)
}

// lineOf returns the line of a path, or of the nearest path that contains it.
func (p *parser) lineOf(path string) int {
	for path != "" {
		if n, ok := p.lines[path]; ok {
			return n
		}
		if n, ok := p.lines[path+"[0]"]; ok { // an array of tables begins with its first entry
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// syntax reports an error of the TOML library.
func (p *parser) syntax(err error) {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		p.add(0, "", "%s", oneLine(err.Error()))
		return
	}
	p.add(pe.Position.Line, "", "this is not TOML: %s", oneLine(pe.Message))
}

// oneLine replaces characters that are not printable by question marks.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// document reads the tables, each by its own function, and then runs the cross checks.
func (p *parser) document(doc map[string]any) {
	p.unknownTables(doc)
	p.splitPorts(doc)
	one := func(name string) *table { return p.single(doc, name) }
	p.bridge(one("bridge"))
	p.segments(doc)
	ibSection := one("ib")
	p.ib(ibSection)
	for _, t := range p.several(doc, morePorts) {
		p.cfg.MoreIB = append(p.cfg.MoreIB, p.morePort(t))
	}
	p.fabrics(one("fabrics"))
	workers := one("workers")
	p.workers(workers)
	policy := one("policy")
	p.policy(policy)
	p.qos(one("qos"))
	p.fleet(one("fleet"))
	p.metrics(one("metrics"))
	p.console(one("console"))
	p.log(one("log"))
	p.entries(doc)
	p.crossChecks().all(ibSection, workers, policy)
}

// entries reads the tables that may appear many times, and appends them to those of the Config.
func (p *parser) entries(doc map[string]any) {
	for _, t := range p.several(doc, "host") {
		p.cfg.Hosts = append(p.cfg.Hosts, p.host(t))
	}
	for _, t := range p.several(doc, "group") {
		p.cfg.Groups = append(p.cfg.Groups, p.group(t))
	}
	for _, t := range p.several(doc, "range") {
		p.cfg.Ranges = append(p.cfg.Ranges, p.groupRange(t))
	}
	for _, t := range p.several(doc, "service") {
		p.cfg.Services = append(p.cfg.Services, readService(t))
	}
	for _, t := range p.several(doc, "translate") {
		p.cfg.Translates = append(p.cfg.Translates, readTranslate(t))
	}
}

// unknownTables reports tables that the file may not have.
func (p *parser) unknownTables(doc map[string]any) {
	var names []string
	for _, t := range tables {
		names = append(names, t.name)
	}
	for _, name := range sortedKeys(doc) {
		if tableNamed(name) != nil {
			continue
		}
		if owners := tablesWith(name); len(owners) > 0 {
			if !isTable(doc[name]) {
				p.add(p.lineOf(name), "", "key %s stands outside of any table; put it under %s", name, owners)
				continue
			}
		}
		p.add(p.lineOf(name), "", "table [%s] is not known; %s", printable(name), suggest(name, names, "the tables are"))
	}
}

func isTable(v any) bool {
	switch v.(type) {
	case map[string]any, []map[string]any:
		return true
	}
	return false
}

// single returns the table [name]; an empty one where the file has none.
func (p *parser) single(doc map[string]any, name string) *table {
	t := &table{p: p, name: name, path: name, who: name}
	switch v := doc[name].(type) {
	case nil:
		if tableNamed(name).need {
			t.absent = true
			p.add(0, "", "table [%s] is missing; it needs %s", name, enumerate(tableNamed(name).keyNames(true), "and"))
		}
	case map[string]any:
		t.vals = v
		t.checkKeys()
	default:
		t.absent = true
		p.add(p.lineOf(name), "", "%s is %s; write one table, [%s]", name, describe(v), name)
	}
	t.keep()
	return t
}

// several returns the tables [[name]], and appends them to p.tables.
func (p *parser) several(doc map[string]any, name string) []*table {
	var vals []map[string]any
	switch v := doc[name].(type) {
	case nil:
		return nil
	case []map[string]any:
		vals = v
	case []any:
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				p.add(p.lineOf(name), "", "%s holds %s; write tables, each under [[%s]]", name, describe(e), name)
				return nil
			}
			vals = append(vals, m)
		}
	default:
		p.add(p.lineOf(name), "", "%s is %s; write [[%s]], once for each", name, describe(v), name)
		return nil
	}
	ts := make([]*table, len(vals))
	for i, v := range vals {
		ts[i] = &table{p: p, name: name, path: fmt.Sprintf("%s[%d]", name, i), vals: v}
		ts[i].who = name + " " + label(name, v, i)
		ts[i].checkKeys()
	}
	p.tables[name] = append(p.tables[name], ts...)
	return ts
}

// label names an entry by its address or port, or else by its number.
func label(table string, v map[string]any, i int) string {
	by := []string{"ip", "ip6"}
	switch table {
	case "service":
		by = []string{"port", "ports"}
	case "translate":
		by = []string{"roce"}
	case morePorts:
		by = []string{"name", "port"}
	}
	for _, k := range by {
		switch x := v[k].(type) {
		case string:
			return printable(x)
		case int64:
			return fmt.Sprint(x)
		}
	}
	return fmt.Sprintf("number %d", i+1)
}
