// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"causeway/config/nesting"
)

// changeFile stands for the file name in problems of a change that comes from no file.
const changeFile = "the change"

// Extend returns c with further entries: [[host]], [[group]], [[range]], [[service]] and [[translate]], as a file has
// them. It checks everything as if it were one file.
func (c *Config) Extend(text string) (*Config, error) {
	p := c.parser()
	var doc map[string]any
	if _, err := nesting.Decode(text, &doc); err != nil {
		p.syntax(err)
		return nil, p.problems
	}
	p.lines = scanLines(text)
	p.unknownTables(doc)
	for _, name := range sortedKeys(doc) {
		if t := tableNamed(name); t != nil && !t.many {
			p.add(p.lineOf(name), "", "table %s is there already; only [[host]], [[group]], [[range]], [[service]] and [[translate]] can be added", t.header())
		}
	}
	p.entries(doc)
	return p.checked()
}

// WithHosts returns c with other hosts; an error is of type Problems.
func (c *Config) WithHosts(hosts []Host) (*Config, error) {
	return c.with(func(c *Config) { c.Hosts = hosts })
}

// WithGroups returns c with other groups.
func (c *Config) WithGroups(groups []Group) (*Config, error) {
	return c.with(func(c *Config) { c.Groups = groups })
}

// WithServices returns c with other services.
func (c *Config) WithServices(services []Service) (*Config, error) {
	return c.with(func(c *Config) { c.Services = services })
}

func (c *Config) with(change func(*Config)) (*Config, error) {
	to := c.clone()
	change(to)
	return to.parser().checked()
}

// clone copies the lists that may be appended to.
func (c *Config) clone() *Config {
	to := *c
	to.Hosts, to.Groups = slices.Clone(c.Hosts), slices.Clone(c.Groups)
	to.Ranges, to.Services, to.Translates = slices.Clone(c.Ranges), slices.Clone(c.Services), slices.Clone(c.Translates)
	return &to
}

// parser returns a parser in the state after reading c.
func (c *Config) parser() *parser {
	p := &parser{reading: reading{file: changeFile, cfg: c.clone(), tables: map[string][]*table{}}}
	p.namedSegments()
	for _, t := range tables {
		for _, e := range c.entries(t.name) {
			who, _ := e.named()
			p.tables[t.name] = append(p.tables[t.name], &table{p: p, name: t.name, who: t.name + " " + who})
		}
	}
	return p
}

// checked returns the parser's Config after the cross checks.
func (p *parser) checked() (*Config, error) {
	one := func(name string) *table { return &table{p: p, name: name, who: name} }
	notes := p.cfg.Notes // those of the file
	p.crossChecks().all(one("ib"), one("workers"), one("policy"))
	p.cfg.Notes = notes
	if len(p.problems) > 0 {
		p.problems.sortByLine()
		return nil, p.problems
	}
	return p.cfg, nil
}
