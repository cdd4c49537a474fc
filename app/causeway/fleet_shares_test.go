// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"causeway/fleet/shares"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// shareOf returns the share of a host.
func (f *bridgeFleet) shareOf(host int) shares.Share {
	f.t.Helper()
	mac, err := frame.ParseMAC(regexp.MustCompile(`link/ether (\S+)`).FindStringSubmatch(f.hosts[host].do(f.t, "ip link show h0"))[1])
	if err != nil {
		f.t.Fatal(err)
	}
	return shares.OfHost(mac)
}

// ownerOf returns the number of the member that has a share.
func (f *bridgeFleet) ownerOf(s shares.Share) int {
	f.t.Helper()
	owner := regexp.MustCompile(fmt.Sprintf(`(?m)^%v +\S+ +m(\d)`, s)).FindStringSubmatch(f.ctl(1, "show", "shares"))
	return int(owner[1][0] - '0')
}

// listed has "causeway acm" list each host with the GID of the member that has it.
func (f *bridgeFleet) listed() {
	f.t.Helper()
	const unknown = "fe80::99"
	p := launch(f.t, "acm", "-gid", unknown, f.files[1])
	if code := p.wait(); code != exitOK {
		f.t.Fatalf("acm: %d: %v%v", code, &p.stdout, &p.stderr)
	}
	text := p.stdout.String()
	gids := map[string]ib.GID{}
	for _, port := range f.subnet.Ports() {
		gids[port.Name] = port.GID
	}
	for i := range f.hosts {
		owner := fmt.Sprint("m", f.ownerOf(f.shareOf(i)))
		if line := fmt.Sprintf("10.9.0.%d %v\n", i+1, gids[owner]); !strings.Contains(text, line) {
			f.t.Errorf("%s has host %d, but %q is not in\n%v", owner, i+1, line, text)
		}
	}
	if !strings.Contains(text, "10.9.0.99 "+unknown+"\n") {
		f.t.Errorf("a host that nobody knows is not the bridge's own in\n%v", text)
	}
}
