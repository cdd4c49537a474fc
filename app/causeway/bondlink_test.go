// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// cable makes a cable of a bond, up, from ours to a switch to which the peer is connected.
func (n *network) cable(i int) {
	n.t.Helper()
	n.ip(fmt.Sprintf("link add ours%d mtu 4200 type veth peer name port%[1]d mtu 4200", i))
	n.ip(fmt.Sprintf("link set port%d master theirs", i))
	n.ip(fmt.Sprintf("link set port%d up", i))
}

// memberLinks waits until the metrics have these links of the members ours0 and ours1.
func (n *network) memberLinks(p *program, links ...int) {
	n.t.Helper()
	p.await(fmt.Sprintf("links of the members %v", links), func() bool {
		metrics := n.get("/metrics")
		for i, up := range links {
			if !strings.Contains(metrics, fmt.Sprintf("\ncauseway_bond_member_link_up{member=\"ours%d\"} %d\n", i, up)) {
				return false
			}
		}
		return true
	})
}

// TestBondMemberDeleted deletes the interfaces of a bond's members, one by one and both, and makes them anew: the bond takes
// them back, the bridge carries on by whichever there is, and is ready while there is one.
func TestBondMemberDeleted(t *testing.T) {
	t.Parallel()
	for _, cores := range []string{"[0]", "[0, 1]"} {
		t.Run(cores, func(t *testing.T) {
			n := newNetwork(t)
			n.ip("link add theirs mtu 4200 type bridge")
			n.ip("link set theirs up")
			n.cable(0)
			n.cable(1)
			p := n.bridge(`port = "ring"`, `port = "bond:active-backup,af_packet:ours0,af_packet:ours1"`, "lcores = [0]", "lcores = "+cores, `idle = "sleep"`, `idle = "interrupt"`)
			answers := func() {
				t.Helper()
				n.ip("neigh flush dev theirs")
				n.answersARP(p)
			}
			answers()
			for _, i := range []int{0, 1, 0} {
				n.ip(fmt.Sprintf("link del ours%d", i))
				n.memberLinks(p, i, 1-i)
				answers()
				n.cable(i)
				n.memberLinks(p, 1, 1)
				answers()
			}
			for i := range 2 {
				n.ip(fmt.Sprintf("link del ours%d", i))
			}
			n.memberLinks(p, 0, 0)
			if answer := n.get("/readyz"); !strings.HasPrefix(answer, "HTTP/1.0 503") || !strings.Contains(answer, "its interface was deleted") {
				t.Errorf("without any interface, /readyz answers\n%s", answer)
			}
			n.cable(1)
			n.memberLinks(p, 0, 1)
			answers()
			n.sleptWell(p)
			p.end(syscall.SIGTERM)
			for _, x := range p.lines() {
				if x["msg"] == "stopped" && x["conserved"] != true {
					t.Errorf("%v", x)
				}
			}
		})
	}
}
