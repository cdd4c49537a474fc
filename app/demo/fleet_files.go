// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"net/netip"
	"strings"

	"causeway/app/segment"
)

func voterName(n int) string  { return fmt.Sprintf("v%d", n+1) }
func portName(n int) string   { return fmt.Sprintf("port%d", n+1) }
func clientsURL(n int) string { return fmt.Sprintf("http://%v:2379", machineIP4(n)) }
func peersURL(n int) string   { return fmt.Sprintf("http://%v:2380", machineIP4(n)) }

// The machines' addresses on the voters' network.
func machineIP4(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 99, 0, byte(1 + n)}) }
func machineIP6(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd99::%d", 1+n)) }

// voterCommand is how a voter is started: an etcd server. Nobody else is on its network, so that it needs no certificates.
func (b *fleetbed) voterCommand(n int) []string {
	var all []string
	for i := range fleetBridges {
		all = append(all, voterName(i)+"="+peersURL(i))
	}
	return []string{b.etcd, "--name", voterName(n), "--data-dir", b.path(voterName(n)), "--initial-cluster", strings.Join(all, ","),
		"--listen-client-urls", clientsURL(n), "--advertise-client-urls", clientsURL(n),
		"--listen-peer-urls", peersURL(n), "--initial-advertise-peer-urls", peersURL(n), "--heartbeat-interval", "50", "--election-timeout", "250"}
}

// bridgeFile returns the configuration of a bridge. All are the same but for name, port, address, CPU and console.
func (b *fleetbed) bridgeFile(n int) string {
	var t strings.Builder
	cpus := usableCPUs()
	fmt.Fprintf(&t, `[bridge]
name = %[1]q
[roce]
port      = "af_packet:%[12]s"
addresses = ["10.9.0.%[2]d/24"]
mtu       = %[3]d
[ib]
port = "fabric:%[4]s"
[workers]
lcores     = [%[5]d]
idle       = "interrupt"
memory_mib = 128
[policy]
allow = ["10.9.0.0/24"]
[fleet]
name = "demo"
etcd = [%[6]q, %[7]q, %[8]q]
[console]
listen = ["unix:%[9]s"]
[log]
format = "json"
[[host]]
ip   = %[10]q
side = "ib"
gid  = %[11]q
[[group]]
ip        = %[13]q
mgid      = "rdmacm"
direction = "to-ib"
`, bridgeNames[n], 251+n, segment.MTU, b.path("subnet.sock"), cpus[n%len(cpus)], clientsURL(0), clientsURL(1), clientsURL(2),
		b.path(bridgeNames[n]+".sock"), nodeIP4(fleetNode), nodeGID(fleetNode), portName(n), toIB)
	for _, g := range fleetGroups {
		fmt.Fprintf(&t, "[[group]]\nip = %q\nmgid = \"rdmacm\"\ndirection = \"to-roce\"\n", g)
	}
	return t.String()
}
