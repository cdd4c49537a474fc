// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
)

// A BondMode says which members of a bond carry frames.
type BondMode string

// The modes, in the words of the kernel's bonding driver.
const (
	ActiveBackup BondMode = "active-backup" // one, the first that has a carrier
	LACP         BondMode = "lacp"          // all that the other end aggregates (IEEE 802.1AX)
)

// bondDriver is the driver of a port that has members: "bond:lacp,af_packet:eth1,af_packet:eth2".
const bondDriver = "bond"

// mostMembers is how many links a bond may have: those of one LACP aggregator at most switches.
const mostMembers = 8

const bondExample = "bond:lacp,af_packet:eth1,af_packet:eth2"

// Bond returns the mode and the members of a bond, the first of them first; of other ports "" and nil.
func (p EthPort) Bond() (BondMode, []EthPort) {
	if p.Driver != bondDriver {
		return "", nil
	}
	parts := strings.Split(p.Arg, ",")
	var members []EthPort
	for _, m := range parts[1:] {
		driver, arg, _ := strings.Cut(m, ":")
		members = append(members, EthPort{driver, arg})
	}
	return BondMode(parts[0]), members
}

// Links returns the members of a bond, or else the port itself.
func (p EthPort) Links() []EthPort {
	if _, members := p.Bond(); members != nil {
		return members
	}
	return []EthPort{p}
}

// Kind returns the driver of all of the port's links.
func (p EthPort) Kind() string { return p.Links()[0].Driver }

// readBond checks the argument of a bond.
func readBond(t *table, s, arg string) EthPort {
	parts := strings.Split(arg, ",")
	mode, members := BondMode(parts[0]), parts[1:]
	if mode != ActiveBackup && mode != LACP {
		t.fail("port", "port %s: a bond is %s or %s, not %s; write it like %q", show(s), ActiveBackup, LACP, show(string(mode)), bondExample)
		return EthPort{}
	}
	if n := len(members); n < 2 || n > mostMembers {
		t.fail("port", "port %s: a bond of %d; name 2 to %d ports after the mode, like %q", show(s), n, mostMembers, bondExample)
		return EthPort{}
	}
	for i, m := range members {
		driver, arg, _ := strings.Cut(m, ":")
		first, _, _ := strings.Cut(members[0], ":")
		switch {
		case driver == "mlx5":
			t.fail("port", "port %s: a ConnectX has its ports bonded by the kernel, so that the card spreads frames itself; bond its two interfaces "+
				"there (ip link add bond0 type bond), and write port = %q", show(s), m)
		case strings.HasPrefix(m, tapRemote[1:]):
			t.fail("port", "port %s: a tap with remote= cannot be in a bond; name the interface itself, \"af_packet:%s\"", show(s),
				strings.TrimPrefix(m, tapRemote[1:]))
		case driver != "af_packet" && driver != "tap" || !netInterface.MatchString(arg):
			t.fail("port", "port %s: %s cannot be in a bond; its members are like \"af_packet:eth1\" or \"tap:dtap0\"", show(s), show(m))
		case driver != first:
			t.fail("port", "port %s: %s and %s in one bond; name ports of one driver", show(s), first, driver)
		case slices.Contains(members[:i], m):
			t.fail("port", "port %s: %s is there twice; name it once", show(s), m)
		default:
			continue
		}
		return EthPort{}
	}
	return EthPort{bondDriver, arg}
}
