// SPDX-License-Identifier: Apache-2.0

package bond

import (
	"strings"

	"causeway/dpdk/lacp"
)

// why returns why a member carries no frames, and whether it only waits for another to fail.
func (b *Bond) why(i int) (string, bool) {
	m := &b.members[i]
	switch {
	case m.sends:
		return "", false
	case !m.Up:
		return m.noLink, false
	case b.lacp == nil && i != b.active:
		return "it waits for " + b.members[b.active].Name + " to fail", true
	case b.lacp == nil:
		return "its driver has no link yet", false
	}
	return whyNot(b.lacp.Ports()[i])
}

// whyNot says the same of a port that speaks LACP and has a link.
func whyNot(p lacp.Port) (string, bool) {
	switch {
	case p.Receiving == lacp.WasCurrent:
		return "no LACPDU has come for three seconds, or none yet", false
	case p.Receiving == lacp.NoPartner:
		return "the other end does not speak LACP; see its port's configuration", false
	case !p.Selected:
		return "it leads to another switch, or another aggregator of it, than the members in use", true
	case p.Partner.State&lacp.Synchronization == 0:
		return "the other end has not taken it into its aggregator", false
	case p.Partner.State&lacp.Collecting == 0:
		return "the other end does not receive by it", false
	}
	return "its driver has no link yet", false
}

// whyDown says why no member carries frames.
func (b *Bond) whyDown() string {
	var all []string
	for _, m := range b.members {
		all = append(all, m.Name+": "+m.Why)
	}
	return "no member of the bond carries frames: " + strings.Join(all, "; ")
}

// Down returns why no frames can pass the bond; "": they can.
func (b *Bond) Down() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.members {
		if m.Carries {
			return ""
		}
	}
	return b.whyDown()
}
