// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"strings"
)

// Config is ConfigAt for a bridge whose Ethernet port is the server of a memif at socket.
func (t Traffic) Config(socket, subnetFile string, cpu int) (bridge, subnet string, err error) {
	return t.ConfigAt(fmt.Sprintf("memif:%s,role=server,mac=%v", socket, bridgeMAC), subnetFile, cpu)
}

// ConfigAt returns configurations for a bridge in another process ("causeway run") and for its software subnet, whose
// nodes echo each message. Port is written as in the configuration.
func (t Traffic) ConfigAt(port, subnetFile string, cpu int) (bridge, subnet string, err error) {
	if err := t.Check(); err != nil {
		return "", "", fmt.Errorf("dut: %w", err)
	}
	var b, s strings.Builder
	fmt.Fprintf(&b, `# For causeway-perf
[bridge]
name = "causeway-perf"
[roce]
port      = "%[1]s"
addresses = ["10.9.255.254/16", "10.10.255.254/16", "fd09::fffe/64", "fd0a::fffe/64"]
mtu       = 4200
vlan      = %[2]d
[ib]
port = "fabric:%[3]s"
[workers]
lcores   = [%[4]d]
idle     = "poll"
mbufs    = 32768
proxy_qps = %[5]d
[policy]
allow = ["10.0.0.0/8", "fd00::/8"]
`, port, t.VLAN, subnetFile, cpu, t.Flows+64)
	s.WriteString("[fabric]\nmtu = 4096\n")
	for i := range t.Flows {
		fmt.Fprintf(&b, "[[host]]\nip = \"%v\"\nip6 = \"%v\"\nside = \"ib\"\ngid = \"%v\"\n", nodeIP(4, i), nodeIP(6, i), nodeGID(i))
		fmt.Fprintf(&b, "[[host]]\nip = \"%v\"\nside = \"roce\"\nmac = \"%v\"\n", hostIP(t.version(i), i), hostMAC(i))
		fmt.Fprintf(&s, "[[node]]\nname = \"node%d\"\nguid = \"0x%016x\"\nqpn = %d\nqkey = 0x01234567\nrole = \"echo\"\n", i, uint64(nodeGID(i).GUID()), nodeQPN)
	}
	for i := range t.Groups {
		fmt.Fprintf(&b, "[[group]]\nip = \"%v\"\n", groupIP(t.version(i), i))
	}
	return b.String(), s.String(), nil
}
