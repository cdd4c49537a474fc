// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	"causeway/config"
	"causeway/ibside/ib"
)

// A pair is one Ethernet port and one InfiniBand port of a configuration, which checks look at.
type pair struct {
	name string // of the port that further ones have
	cfg  *config.Config
}

// pairs are the first ports, and each further one with the first of the other side.
func pairs(c *config.Config) []pair {
	ethernet := c.EthPorts()
	first := onPort(c, ethernet[0])
	all := []pair{{"", through(first, c.IB)}}
	for _, port := range ethernet[1:] {
		all = append(all, pair{port.String(), through(onPort(c, port), c.IB)})
	}
	for _, x := range c.MoreIB {
		all = append(all, pair{x.Name, through(first, x)})
	}
	return all
}

// onPort is the configuration with the segments of one Ethernet port alone.
func onPort(c *config.Config, port config.EthPort) *config.Config {
	one := *c
	segments := slices.DeleteFunc(c.Segments(), func(r config.RoCE) bool { return r.Port != port })
	one.RoCE, one.More = segments[0], segments[1:]
	return &one
}

// through is the configuration with one InfiniBand port alone.
func through(c *config.Config, x config.IB) *config.Config {
	one := *c
	one.IB, one.MoreIB = x, nil
	one.Groups, one.Ranges = slices.Clone(c.Groups), slices.Clone(c.Ranges)
	for i := range one.Groups {
		one.Groups[i].PKey = inPlace(one.Groups[i].PKey, c, &x)
	}
	for i := range one.Ranges {
		one.Ranges[i].Group.PKey = inPlace(one.Ranges[i].Group.PKey, c, &x)
	}
	return &one
}

// inPlace returns a port's P_Key in place of the first port's.
func inPlace(pkey ib.PKey, c *config.Config, x *config.IB) ib.PKey {
	if pkey == c.IB.PKey {
		return x.PKey
	}
	return pkey
}

// examinePairs runs the checks for each pair of ports. Of further ones it returns what is found of that port alone: what
// the first ports have, too, has been said.
func examinePairs(c *config.Config, s Sources) (out Findings) {
	said := map[[3]string]bool{}
	for _, p := range pairs(c) {
		for _, g := range groups(p.cfg, s) {
			for _, f := range g.examine() {
				key := [3]string{f.Group, f.Check, f.Found}
				if p.name != "" && said[key] {
					continue
				}
				said[key] = true
				if p.name != "" {
					f.Group += " " + p.name
				}
				out = append(out, f)
			}
		}
	}
	return out
}
