// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	"causeway/config"
	"causeway/ibside/ib"
)

// inPlace returns a port's P_Key in place of the first port's.
func inPlace(pkey ib.PKey, c *config.Config, x *config.IB) ib.PKey {
	if pkey == c.IB.PKey {
		return x.PKey
	}
	return pkey
}

// examineMore runs the checks again for each further [[ib]], and returns what they find of that port alone: what the
// first port has, too, has been said.
func examineMore(c *config.Config, s Sources) (out Findings) {
	said := map[string]bool{}
	of := func(x config.IB) (all Findings) {
		one := *c
		one.IB, one.MoreIB = x, nil
		one.Groups, one.Ranges = slices.Clone(c.Groups), slices.Clone(c.Ranges)
		for i := range one.Groups {
			one.Groups[i].PKey = inPlace(one.Groups[i].PKey, c, &x)
		}
		for i := range one.Ranges {
			one.Ranges[i].Group.PKey = inPlace(one.Ranges[i].Group.PKey, c, &x)
		}
		for _, g := range groups(&one, s) {
			all = append(all, g.examine()...)
		}
		return all
	}
	if len(c.MoreIB) == 0 {
		return nil
	}
	for _, f := range of(c.IB) {
		said[f.Group+f.Check+f.Found] = true
	}
	for _, x := range c.MoreIB {
		more := slices.DeleteFunc(of(x), func(f Finding) bool { return said[f.Group+f.Check+f.Found] })
		for _, f := range more {
			f.Group += " " + x.Name
			out = append(out, f)
		}
	}
	return out
}
