// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"causeway/config/nesting"
)

// A document is a file as TOML has it.
type document = map[string]any

// WithShared returns what the file that c was loaded from means together with what its fleet shares: a text of the same form,
// with shared keys only, which count before the file's. Tables of shared keys alone that a running bridge can change, such as
// [policy] and [[group]], are the text's as a whole; of other tables, such as [roce], the keys that it has. An error is of type
// Problems.
func (c *Config) WithShared(name, text string) (*Config, error) {
	shared, problems := readShared(name, text)
	if len(problems) > 0 {
		return nil, problems
	}
	return c.reread(c.origin.path+" with "+name, shared)
}

// WithoutShared returns what the file that c was loaded from means alone.
func (c *Config) WithoutShared() (*Config, error) { return c.reread(c.origin.path, nil) }

// reread reads the text of the file again; shared may be nil.
func (c *Config) reread(name string, shared document) (*Config, error) {
	if c.origin.path == "" {
		return nil, errors.New("config: the configuration is from no file, and so has no part that a fleet could share")
	}
	p := parser{reading: reading{file: name, cfg: &Config{values: map[string]string{}}, tables: map[string][]*table{}}}
	var own document
	if _, err := nesting.Decode(string(c.origin.text), &own); err != nil {
		return nil, fmt.Errorf("config: %s: %w", name, err) // it was read before
	}
	if shared == nil {
		p.lines = c.origin.lines
	} else {
		p.merge(own, shared)
	}
	p.document(own)
	if len(p.problems) > 0 {
		p.problems.sortByLine()
		return nil, p.problems
	}
	p.cfg.loadedFrom(c.origin)
	return p.cfg, nil
}

// loadedFrom tells a configuration its file.
func (c *Config) loadedFrom(o origin) {
	c.origin = o
	fromFolder(&c.IB.Port.File, o.path)
	for i := range c.MoreIB {
		fromFolder(&c.MoreIB[i].Port.File, o.path)
	}
}

// originOf is what is remembered of a file.
func originOf(path string, data []byte) origin {
	return origin{path, sha256.Sum256(data), scanLines(string(data)), data}
}

// SharedName is how messages call what a fleet shares.
func SharedName(version uint64, fleet string) string {
	return fmt.Sprintf("configuration %d of fleet %s", version, fleet)
}

// readShared reads what a fleet shares. Problems are of keys that are not shared; what values are wrong is found out when it
// is read with a member's file.
func readShared(name, text string) (document, Problems) {
	p := parser{reading: reading{file: filepath.Clean(name)}}
	if len(text) > largestPushed {
		p.add(0, "", "%d bytes are too many to be kept in etcd; the limit is %d", len(text), largestPushed)
		return nil, p.problems
	}
	doc := document{}
	if _, err := nesting.Decode(text, &doc); err != nil {
		p.syntax(err)
		return nil, p.problems
	}
	p.lines = scanLines(text)
	p.unknownTables(doc)
	for _, name := range sortedKeys(doc) {
		if tableNamed(name) == nil {
			continue
		}
		all, ok := tablesIn(doc[name])
		if !ok {
			p.add(p.lineOf(name), "", "%s is %s; write %s", name, describe(doc[name]), tableNamed(name).header())
		}
		for i, vals := range all {
			path := name
			if _, one := doc[name].(document); !one {
				path = fmt.Sprintf("%s[%d]", name, i)
			}
			p.onlyShared(&table{p: &p, name: name, path: path, who: name, vals: vals})
		}
	}
	p.problems.sortByLine()
	return doc, p.problems
}

// largestPushed is the longest text that is pushed, in bytes; etcd takes 1.5 MiB, in which each quote is two bytes.
const largestPushed = maxFile / 2

// onlyShared reports the keys of a table that each member has of its own.
func (p *parser) onlyShared(t *table) {
	t.unknownKeys()
	for _, name := range sortedKeys(t.vals) {
		k := findKey(t.name, name)
		if k == nil {
			continue
		}
		if bridge, _ := t.vals[name].(bool); !k.shared || k.table == "host" && k.name == "bridge" && bridge {
			t.fail(name, "%s is each member's own, and nothing that a fleet shares; write it in the members' files, and remove it here", name)
		}
	}
}

// tablesIn are the tables of a value: one, or those of a list.
func tablesIn(v any) ([]document, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case document:
		return []document{v}, true
	case []document:
		return v, true
	}
	return nil, false
}

// merge has what is shared count in a member's own file.
func (p *parser) merge(own, shared document) {
	for i := range tables {
		t := &tables[i]
		switch {
		case t.shared && t.live:
			replaceTable(t.name, own, shared)
		case t.name == "roce":
			p.mergeSegments(own, shared)
		default:
			p.mergeNumbered(t.name, own, shared)
		}
	}
}

// replaceTable takes a whole table from what is shared. Other bridges are others to each member, and so stay its own.
func replaceTable(name string, own, shared document) {
	had, _ := tablesIn(own[name])
	delete(own, name)
	if v, there := shared[name]; there {
		own[name] = v
	}
	if name != "host" {
		return
	}
	list, _ := tablesIn(own[name])
	for _, h := range had {
		if bridge, _ := h["bridge"].(bool); bridge {
			list = append(list, h)
		}
	}
	own[name] = list
}

// mergeNumbered has shared keys of the first, second and so on table of a name count in the member's.
func (p *parser) mergeNumbered(name string, own, shared document) {
	add, _ := tablesIn(shared[name])
	has, _ := tablesIn(own[name])
	if own[name] == nil && len(add) == 1 && !tableNamed(name).many {
		own[name] = add[0]
		return
	}
	for i, vals := range add {
		if i >= len(has) {
			p.add(0, fmt.Sprintf("%s number %d", name, i+1), "the member's file has no such table, and the rest of it is each member's own; write it there first")
			return
		}
		maps.Copy(has[i], vals)
	}
}

// mergeSegments has shared keys of a segment count in the member's of the same VLAN; of one without a VLAN, in the only one.
func (p *parser) mergeSegments(own, shared document) {
	add, _ := tablesIn(shared["roce"])
	has, _ := tablesIn(own["roce"])
	for _, vals := range add {
		vlan, given := vals["vlan"].(int64)
		found := false
		for _, segment := range has {
			if of, _ := segment["vlan"].(int64); of == vlan || !given && len(has) == 1 {
				maps.Copy(segment, vals)
				found = true
			}
		}
		if !found {
			p.add(0, fmt.Sprintf("roce vlan %d", vlan), "the member's file has no segment of this VLAN, and its port and addresses are each member's own; write it there first")
		}
	}
}
