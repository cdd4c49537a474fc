// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"causeway/ibside/ib"
)

// Scope says which segments an entry is for: that of a VLAN, or with its zero value all.
type Scope struct {
	One  bool
	VLAN uint16
	Port EthPort // where the VLAN does not tell which
}

func (s Scope) place() Place { return Place{s.Port, s.VLAN} }

// Has reports whether the entry is for a segment.
func (s Scope) Has(r *RoCE) bool { return !s.One || s.place().is(r) }

// meets reports whether two entries are for one segment.
func (s Scope) meets(o Scope) bool {
	return !s.One || !o.One || s.VLAN == o.VLAN && (s.Port == o.Port || s.Port == EthPort{} || o.Port == EthPort{})
}

// String returns " vlan 100", or nothing.
func (s Scope) String() string {
	if !s.One {
		return ""
	}
	if s.Port != (EthPort{}) {
		return " segment " + s.place().String()
	}
	return fmt.Sprint(" vlan ", s.VLAN)
}

func (s Scope) fields() []field {
	f := []field{{"vlan", ""}, {"segment", ""}}
	switch {
	case s.Port != EthPort{}:
		f[1].value = s.place().String()
	case s.One:
		f[0].value = strconv.Itoa(int(s.VLAN))
	}
	return f
}

// readScope reads the key vlan, or segment, of an entry that may be for one segment.
func readScope(t *table) Scope {
	if !t.has("vlan") && !t.has("segment") {
		return Scope{}
	}
	p := t.place(", or remove it, which means all")
	return Scope{true, p.VLAN, p.Port}
}

// ServicesIn returns the services of a segment.
func (c *Config) ServicesIn(r *RoCE) []Service {
	return slices.DeleteFunc(slices.Clone(c.Services), func(s Service) bool { return !s.Has(r) })
}

// AllowedIn returns the prefixes of hosts of a segment that may send across.
func (c *Config) AllowedIn(r *RoCE) []netip.Prefix { return slices.Concat(c.Policy.Allow, r.Allow) }

// Allows reports whether packets of a host of the segment may cross.
func (c *Config) Allows(r *RoCE, a netip.Addr) bool {
	return slices.ContainsFunc(c.AllowedIn(r), func(n netip.Prefix) bool { return n.Contains(a) })
}

// TranslationsIn returns the mapping of a segment.
func (c *Config) TranslationsIn(r *RoCE) ib.Translations {
	ts := ib.Translations{}
	for _, t := range c.Translates {
		if t.Has(r) {
			ts = append(ts, t.Translation)
		}
	}
	return ts
}

// TranslationsOf returns the mapping of a host: that of its segment; of a node that several reach, the first one's.
func (c *Config) TranslationsOf(h Host) ib.Translations {
	for _, r := range c.SegmentsOf(h) {
		return c.TranslationsIn(&r)
	}
	return nil
}

// HostsIn returns the hosts of a segment, and the nodes that it reaches.
func (c *Config) HostsIn(r *RoCE) []Host {
	return slices.DeleteFunc(slices.Clone(c.Hosts), func(h Host) bool {
		return !slices.ContainsFunc(c.SegmentsOf(h), func(s RoCE) bool { return s.Place() == r.Place() })
	})
}
