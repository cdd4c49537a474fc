// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"strings"
)

// Config writes a configuration of the bridge, and one of its software subnet, for this traffic, whose nodes answer each
// message: for "causeway run" in a process of its own, as the server of a memif at socket.
func (t Traffic) Config(socket, subnetFile string, cpu int) (bridge, subnet string, err error) {
	if err := t.Check(); err != nil {
		return "", "", fmt.Errorf("dut: %w", err)
	}
	var b, s strings.Builder
	fmt.Fprintf(&b, `# For causeway-perf -memif %[1]s
[bridge]
name = "causeway-perf"
[roce]
port      = "memif:%[1]s,role=server,mac=%[2]v"
addresses = ["10.9.255.254/16", "10.10.255.254/16", "fd09::fffe/64", "fd0a::fffe/64"]
mtu       = 4200
vlan      = %[3]d
[ib]
port = "fabric:%[4]s"
[workers]
lcores   = [%[5]d]
idle     = "poll"
mbufs    = 32768
standins = %[6]d
[policy]
allow = ["10.0.0.0/8", "fd00::/8"]
`, socket, bridgeMAC, t.VLAN, subnetFile, cpu, t.Flows+64)
	s.WriteString("[fabric]\nmtu = 4096\n")
	for i := range t.Flows {
		fmt.Fprintf(&b, "[[host]]\nip = \"%v\"\nip6 = \"%v\"\nside = \"ib\"\ngid = \"%v\"\n", nodeIP(4, i), nodeIP(6, i), nodeGID(i))
		fmt.Fprintf(&b, "[[host]]\nip = \"%v\"\nside = \"roce\"\nmac = \"%v\"\n", hostIP(t.version(i), i), hostMAC(i))
		fmt.Fprintf(&s, "[[node]]\nname = \"node%d\"\nguid = \"0x%016x\"\nqpn = %d\nqkey = 0x01234567\nrole = \"echo\"\n", i, uint64(nodeGID(i).GUID()), nodeQPN)
	}
	return b.String(), s.String(), nil
}
