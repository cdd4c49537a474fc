// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"causeway/ibside"
)

// outOfBuffer is the counter of messages that found no receive buffer. Buffers help against it; a cable or a switch
// does not cause it.
const outOfBuffer = "out_of_buffer"

// A lossProbe reads what an RDMA port and its device count of lost messages.
type lossProbe struct {
	sys   tree
	ports *ports
}

func newLossProbe(s Sources, ports *ports) *lossProbe { return &lossProbe{tree{s.Sys}, ports} }

// counters returns where the kernel has counters of the port.
func (p *lossProbe) counters(r *RDMAPort) []string {
	device := path.Join(infiniband, r.Device)
	port := path.Join(device, "ports", strconv.Itoa(int(r.Num)))
	return []string{path.Join(port, "counters"), path.Join(port, "hw_counters"), path.Join(device, "hw_counters")}
}

// lost returns how many messages a counter has; 0 where the device does not count them.
func (p *lossProbe) lost(r *RDMAPort, name string) int {
	for _, dir := range p.counters(r) {
		if n := p.sys.number(dir, name); n > 0 {
			return n
		}
	}
	return 0
}

// checkDevice names counters of lost messages that are not zero. They are hints, for nobody knows here when it was, nor
// whether the messages were the bridge's.
func (p *lossProbe) checkDevice() []Finding {
	port := p.ports.ib
	if port == nil {
		return nil
	}
	var out []Finding
	const since = "since its driver was loaded, or its counters were reset"
	if n := p.lost(port, outOfBuffer); n > 0 {
		out = append(out, hint(fmt.Sprintf("%s had no receive buffer for %s %s: those are lost (%s)", port.Name(), plural(n, "message"), since,
			outOfBuffer), "# see whether it grows under load: causeway ctl show ports; then add a worker, or raise [workers] recv_buffers"))
	}
	var others []string
	for _, c := range ibside.LossCounters() {
		if n := p.lost(port, c.Name); n > 0 && c.Kind != ibside.LossEvents && c.Name != outOfBuffer {
			others = append(others, fmt.Sprintf("%s %d", c.Name, n))
		}
	}
	if len(others) > 0 {
		out = append(out, hint(fmt.Sprintf("%s has lost messages %s: %s", port.Name(), since, strings.Join(others, ", ")),
			"# see whether they grow: causeway ctl show ports; then check the cable and the other end of the link, and look for "+
				"congestion (perfquery, ethtool -S)"))
	}
	if len(out) == 0 {
		return fine("%s counts no lost messages", port.Name())
	}
	return out
}
