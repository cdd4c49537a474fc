// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"causeway/ibside/fabric"
)

// TestTakeOver: one bridge replaces another, on another port, with another MAC address. It announces its addresses and
// its node's, so that a host with entries for them has the new MAC address before it sends anything.
func TestTakeOver(t *testing.T) {
	_, c, _ := theSecondTopology(t)
	_, a, _ := theRig(t)
	proof := proves(t, "a bridge takes another's place: hosts know its MAC address before they send, and all comes")
	addresses := []string{"10.9.0.254", "10.9.0.7", "fd09::fe", "fd09::7"}
	// The host must have entries for the first bridge, or there is nothing to correct.
	t.Run("the first", func(t *testing.T) {
		_, node := networks[0].bridge(t, fabric.RoleEcho)
		networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, _ string) {
			pingQPN(t, node.QP().QPN(), host, nodeIP, unicast)
		})
		if out, exit, err := a.Run(within(t, stepTime), "ping -c 1 10.9.0.254 && ping -6 -c 1 fd09::fe"); exit != 0 || err != nil {
			t.Errorf("the bridge does not answer pings: %v: %s", err, out)
		}
	})
	known := macsOf(t, a, addresses)
	keepEntries(t, a, addresses, known)
	bridge := bridgeInGuest(t, c)
	defer func() {
		if err := bridge.Stop(within(t, stepTime)); err != nil {
			t.Error(err)
		}
	}()
	for i, ip := range addresses {
		want := mac(c.Name, 1)
		if known[i] == "" || known[i] == want {
			t.Errorf("%s was at %q before", ip, known[i])
		}
		if err := a.Until(within(t, stepTime/10), fmt.Sprintf("ip neigh show %s | grep -q 'lladdr %s'", ip, want)); err != nil {
			t.Errorf("%s is at %v, want %s: %v", ip, macsOf(t, a, []string{ip}), want, err)
		}
		proof.add(1)
	}
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, _ string) {
		pingQPN(t, echoQPN, host, nodeIP, unicast)
		proof.add(2 * len(mixedSizes))
	})
}

// keepEntries makes a host's neighbour entries stale, as they are after a while without traffic. The host would
// otherwise ask again for those that it has just used, and drop them if the next bridge takes long to start.
func keepEntries(t *testing.T, host *Guest, addresses, macs []string) {
	t.Helper()
	for i, ip := range addresses {
		if err := host.Must(within(t, stepTime), fmt.Sprintf("ip neigh replace %s lladdr %s nud stale dev $(%s)", ip, macs[i], deviceTo(ip))); err != nil {
			t.Error(err)
		}
	}
}

// macsOf returns the MAC addresses in a host's neighbour entries.
func macsOf(t *testing.T, host *Guest, addresses []string) []string {
	t.Helper()
	var macs []string
	for _, ip := range addresses {
		out, _, err := host.Run(within(t, stepTime), "ip neigh show "+ip)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(out, "lladdr ")
		lladdr, _, _ := strings.Cut(after, " ")
		macs = append(macs, lladdr) // "" when there is none
	}
	return macs
}
