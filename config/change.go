// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"github.com/BurntSushi/toml"
)

// changeFile is what problems call a change that is in no file.
const changeFile = "the change"

// Extend returns c with the entries of a text in addition: [[host]], [[group]], [[range]], [[service]] and [[translate]],
// as a file has them. All is checked as if it were one file.
func (c *Config) Extend(text string) (*Config, error) {
	p := c.again()
	var doc map[string]any
	if _, err := toml.Decode(text, &doc); err != nil {
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

// WithHosts returns c with these hosts in place of its own; an error of type Problems when they do not fit the rest.
func (c *Config) WithHosts(hosts []Host) (*Config, error) {
	return c.with(func(c *Config) { c.Hosts = hosts })
}

// WithGroups does so for groups.
func (c *Config) WithGroups(groups []Group) (*Config, error) {
	return c.with(func(c *Config) { c.Groups = groups })
}

// WithServices does so for services.
func (c *Config) WithServices(services []Service) (*Config, error) {
	return c.with(func(c *Config) { c.Services = services })
}

func (c *Config) with(change func(*Config)) (*Config, error) {
	to := c.clone()
	change(to)
	return to.again().checked()
}

// clone copies what may be changed by appending to it.
func (c *Config) clone() *Config {
	to := *c
	to.Hosts, to.Groups = slices.Clone(c.Hosts), slices.Clone(c.Groups)
	to.Ranges, to.Services, to.Translates = slices.Clone(c.Ranges), slices.Clone(c.Services), slices.Clone(c.Translates)
	return &to
}

// again returns a parser that has a copy of c as if it had just read it.
func (c *Config) again() *parser {
	p := &parser{file: changeFile, cfg: c.clone()}
	made := func(name string, e entry) *table {
		who, _ := e.named()
		return &table{p: p, name: name, who: name + " " + who}
	}
	for _, h := range c.Hosts {
		p.hosts = append(p.hosts, made("host", h))
	}
	for _, g := range c.Groups {
		p.groups = append(p.groups, made("group", g))
	}
	for _, r := range c.Ranges {
		p.ranges = append(p.ranges, made("range", r))
	}
	for _, s := range c.Services {
		p.services = append(p.services, made("service", s))
	}
	for _, x := range c.Translates {
		p.translates = append(p.translates, made("translate", x))
	}
	return p
}

// checked returns the parser's Config when all of it fits together.
func (p *parser) checked() (*Config, error) {
	one := func(name string) *table { return &table{p: p, name: name, who: name} }
	notes := p.cfg.Notes // those of the file
	p.crossCheck(one("roce"), one("workers"), one("policy"))
	p.cfg.Notes = notes
	if len(p.problems) > 0 {
		p.problems.sortByLine()
		return nil, p.problems
	}
	return p.cfg, nil
}
