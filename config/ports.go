// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/ibside/ib"
)

// morePorts is the table of further ports. A file may also have [[ib]] for each port: the first is then [ib].
const morePorts = "ib_port"

// MostIBPorts is how many [[ib]] there may be.
const MostIBPorts = 4

// What tells copies of a message that come by several ports.
const (
	DedupNone = "none"
	DedupImm  = "imm"
	DedupPGM  = "pgm"
)

// By which ports a group goes.
const (
	FabricsActive = "active"
	FabricsBoth   = "both"
)

// Fabrics says how several InfiniBand ports are used together.
type Fabrics struct {
	Mode     string // FabricsActive or FabricsBoth
	Dedup    string // DedupNone, DedupImm or DedupPGM
	HoldDown time.Duration
	MaxLoss  int // percent
}

// Most groups and nodes with several ports, because each has a LID of the bridge's own.
const (
	mostGroupsOfSeveral = 0x3ffe
	mostNodesOfSeveral  = 0xbfff
)

// Ports returns all InfiniBand ports, in the order of the file.
func (c *Config) Ports() []IB { return append([]IB{c.IB}, c.MoreIB...) }

// FabricOf returns for each port the number of its fabric, in the order in which the file first names them.
func (c *Config) FabricOf() []int {
	var names []string
	var out []int
	for _, p := range c.Ports() {
		n := slices.Index(names, p.Fabric)
		if n < 0 {
			n, names = len(names), append(names, p.Fabric)
		}
		out = append(out, n)
	}
	return out
}

// ModeOf returns how a group uses several ports: its own keys come before those of [fabrics].
func (c *Config) ModeOf(g *Group) (mode, dedup string) {
	return cmp.Or(g.Fabrics, c.Fabrics.Mode), cmp.Or(g.Dedup, c.Fabrics.Dedup)
}

// GIDsByPort returns the GIDs by port of nodes that have several, zero where one has none, by the GID that stands for
// the node. Any other node's GID is looked for on all fabrics.
func (c *Config) GIDsByPort() map[ib.GID][]ib.GID {
	fabrics, all := c.FabricOf(), map[ib.GID][]ib.GID{}
	for _, h := range c.Hosts {
		if h.GIDs == (HostGIDs{}) {
			continue
		}
		for _, f := range fabrics {
			all[h.GID] = append(all[h.GID], h.GIDs[f])
		}
	}
	return all
}

// HostGIDs are a node's GIDs by fabric; all zero for a node with one GID.
type HostGIDs [MostIBPorts]ib.GID

// splitPorts makes one table [ib] of the first [[ib]], and [[ib_port]] of the others.
func (p *parser) splitPorts(doc map[string]any) {
	all, ok := doc["ib"].([]map[string]any)
	if !ok || len(all) == 0 {
		return
	}
	if doc[morePorts] != nil {
		p.add(p.lineOf(morePorts), "", "[[ib_port]] is there, and [[ib]]; write [[ib]] for each port")
		delete(doc, morePorts)
	}
	doc["ib"] = all[0]
	if len(all) > 1 {
		doc[morePorts] = all[1:]
	}
	lines := map[string]int{}
	for path, n := range p.lines {
		rest, ok := strings.CutPrefix(path, "ib[")
		if !ok {
			continue
		}
		index, key, _ := strings.Cut(rest, "]")
		switch i, _ := strconv.Atoi(index); i {
		case 0:
			lines["ib"+key] = n
		default:
			lines[fmt.Sprintf("%s[%d]%s", morePorts, i-1, key)] = n
		}
	}
	for path, n := range lines {
		p.lines[path] = n
	}
}

// morePort reads one [[ib]] after the first.
func (p *parser) morePort(t *table) IB {
	x := IB{Port: readIBPort(t), PKey: t.pkey("pkey"), Direct: t.truth("direct")}
	if t.has("gid") {
		x.GID = readGID(t, `gid = "fe80::2:c903:0:1"`)
	}
	if x.Port.Fabric && t.has("gid") {
		t.fail("gid", "gid is for ports of a device; the software fabric has one GID; remove it")
	}
	namePort(t, &x)
	return x
}

// namePort reads the keys that all ports have for telling them apart.
func namePort(t *table, x *IB) {
	x.Name = t.portName("name", x.Port.String())
	x.Fabric = t.portName("fabric", x.Name)
}

func (t *table) portName(key, otherwise string) string {
	s, given := t.given(key)
	if given && (s == "" || strings.ContainsAny(s, " \t\n\"'")) {
		t.fail(key, `%s %s is not a name; write one without blanks, like "a"`, key, show(s))
		return otherwise
	}
	return cmp.Or(s, otherwise)
}

// fabrics reads how several ports are used together.
func (p *parser) fabrics(t *table) {
	p.cfg.Fabrics = Fabrics{Mode: t.text("mode"), Dedup: t.text("dedup"), HoldDown: time.Duration(t.number("hold_down")) * time.Second, MaxLoss: int(t.number("max_loss"))}
	if len(p.cfg.MoreIB) == 0 {
		for _, k := range tableNamed("fabrics").keyNames(false) {
			if t.has(k) {
				p.note(t, k, k+" has no effect with one InfiniBand port")
			}
		}
	}
}

// checkPorts reports what does not go together with several ports, or without them.
func (p *checks) checkPorts(ibSection, workers *table) {
	several := len(p.cfg.MoreIB) > 0
	for i, g := range p.cfg.Groups {
		p.checkUse(p.tables["group"][i], &g, several)
	}
	for i := range p.cfg.Hosts {
		p.checkGIDs(p.tables["host"][i], &p.cfg.Hosts[i], several)
	}
	if !several {
		return
	}
	if n := len(p.cfg.MoreIB) + 1; n > MostIBPorts {
		ibSection.fail("port", "%d [[ib]] are too many; use 2 to %d", n, MostIBPorts)
	}
	p.checkOnePort(ibSection)
	p.checkNames(ibSection)
	if n := p.cfg.Workers.Groups; n > mostGroupsOfSeveral {
		workers.fail("groups", "groups %d is more than the %d that several [[ib]] have room for; lower it", n, mostGroupsOfSeveral)
	}
	if n := p.cfg.Workers.Nodes; n > mostNodesOfSeveral {
		workers.fail("nodes", "nodes %d is more than the %d that several [[ib]] have room for; lower it", n, mostNodesOfSeveral)
	}
}

// checkOnePort reports what takes a single port: nodes are learned from the IPoIB of one, and hosts' own GIDs would be of one
// fabric alone.
func (p *checks) checkOnePort(first *table) {
	c := &p.cfg.IB
	for _, k := range []struct {
		name, value, instead string
		there                bool
	}{
		{"nodes", `"learn"`, "write a [[host]] for each node, with its GIDs as gid and more_gids", c.Learn},
		{"host_gids", fmt.Sprint(c.HostGIDs), "remove it, and hosts use the GID that the bridge has on each port", first.has("host_gids")},
		{"alias_gids", fmt.Sprint(c.AliasGIDs), "remove it, and hosts use the GID that the bridge has on each port", first.has("alias_gids")},
		{"ipoib", show(c.IPoIB), "remove it", first.has("ipoib")},
	} {
		if k.there {
			first.fail(k.name, "%s %s is for one InfiniBand port, and there are %d; %s, or keep one [[ib]]", k.name, k.value, len(p.cfg.MoreIB)+1, k.instead)
		}
	}
}

// checkNames reports ports that are there twice.
func (p *checks) checkNames(first *table) {
	tables := append([]*table{first}, p.tables[morePorts]...)
	ports, names := firstOf[IBPort]{}, firstOf[string]{}
	for i, x := range p.cfg.Ports() {
		if x.Port != (IBPort{}) && x.Port != (IBPort{Fabric: true}) {
			ports.unique(tables[i], "port", x.Port, nil)
		}
		if names[x.Name] != nil && !tables[i].has("name") {
			tables[i].fail("name", `name is missing: the port's own, %q, is taken; write name = "b"`, x.Name)
			continue
		}
		names.unique(tables[i], "name", x.Name, nil)
	}
}

// checkUse reports keys of a group that need several ports.
func (p *checks) checkUse(t *table, g *Group, several bool) {
	for key, v := range map[string]string{"fabrics": g.Fabrics, "dedup": g.Dedup} {
		if v != "" && !several && t.has(key) {
			p.note(t, key, key+" has no effect with one InfiniBand port")
		}
	}
	if _, dedup := p.cfg.ModeOf(g); several && dedup == DedupPGM && !g.PGM && g.Dedup == DedupPGM {
		p.note(t, "dedup", "dedup \"pgm\" without pgm = true: copies are dropped, but streams are not counted")
	}
}

// checkGIDs reports a node whose GIDs do not fit the ports.
func (p *checks) checkGIDs(t *table, h *Host, several bool) {
	fabrics := slices.Max(p.cfg.FabricOf()) + 1
	if several && h.LID != 0 {
		t.fail("lid", "lid %v is of one fabric, and there are several ports; remove it: the subnet managers tell", h.LID)
	}
	given := 0
	for i, g := range h.GIDs {
		if !g.IsZero() {
			given = i + 1
		}
	}
	switch {
	case given == 0:
	case !several && t.has("more_gids"):
		p.note(t, "more_gids", "more_gids has no effect with one InfiniBand port")
	case several && given > fabrics:
		t.fail("more_gids", "more_gids names %d GIDs, and there are %d fabrics; write one for each but the first, in the order of [[ib]]", given-1, fabrics)
	}
}

// readMoreGIDs reads a node's GIDs on further fabrics.
func readMoreGIDs(t *table, h *Host) {
	n := 0
	for i, s := range t.elements("more_gids") {
		if n++; n == MostIBPorts {
			t.failAt("more_gids", i, "more_gids names more than %d GIDs; write one for each fabric but the first", MostIBPorts-1)
			return
		}
		if s == "" {
			continue
		}
		g, err := ib.ParseGID(s)
		switch {
		case err != nil || g.IsMulticast() || g.IsZero() || g.GUID() == 0:
			t.failAt("more_gids", i, `more_gids %s is not the GID of a port; write one like "fe80::2:c903:0:107", or "" where the node has none`, show(s))
			continue
		case g == h.GID || slices.Contains(h.GIDs[:], g):
			t.failAt("more_gids", i, "more_gids %s is there twice; a GID that is the same on all fabrics is written once, as gid", g)
			continue
		}
		h.GIDs[0], h.GIDs[n] = h.GID, g
	}
}

// moreGIDs returns a node's further GIDs as entries have lists.
func (h *Host) moreGIDs() string {
	n := MostIBPorts
	for n > 1 && h.GIDs[n-1].IsZero() {
		n--
	}
	var words []string
	for _, g := range h.GIDs[1:n] {
		word := ""
		if !g.IsZero() {
			word = g.String()
		}
		words = append(words, word)
	}
	return strings.Join(words, "+")
}

// named implements entry.
func (x IB) named() (string, []string) { return x.Name, []string{x.Name, x.Port.String()} }

// fields implements entry: of a port after the first.
func (x IB) fields() []field {
	gid, name, fabric := "", x.Name, x.Fabric
	if !x.GID.IsZero() {
		gid = x.GID.String()
	}
	return []field{{"port", x.Port.String()}, {"pkey", fmt.Sprintf("%#x", uint16(x.PKey))}, {"gid", gid}, {"direct", strconv.FormatBool(x.Direct)}, {"name", name}, {"fabric", fabric}}
}
