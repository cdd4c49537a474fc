// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"causeway/app/bridge"
	"causeway/app/capture"
	"causeway/lcore"
)

// mirroredPort is the argument that selects packets by port.
var mirroredPort = Arg{Name: "port", Key: "port", Help: "only packets of this port; of an Ethernet port also the messages of its segments", Kind: Kind{
	Form: "PORT", About: "an Ethernet port's number or name, or the name of one of several InfiniBand ports; show ports has them",
	Parse: func(s string) (any, error) { return s, nil },
	Known: func(_ context.Context, e *Env) (names []string) {
		for _, p := range e.ethernet() {
			names = append(names, p.Name)
		}
		return append(names, e.infinibandNames()...)
	}}}

// ethernet are the Ethernet ports. An only one is number 0.
func (e *Env) ethernet() []bridge.EthernetPort {
	if several := ethernetPorts(e.Bridge); len(several) > 1 {
		return several
	}
	only, _ := e.Bridge.Ports()
	return []bridge.EthernetPort{{Port: only}}
}

// infinibandNames are the names of several InfiniBand ports; none: there is one.
func (e *Env) infinibandNames() (names []string) {
	for _, f := range e.fabrics() {
		names = append(names, f.Name)
	}
	return names
}

// mirror returns what copies packets for a command, and the filter that its arguments describe.
func (c *Call) mirror(what string) (capture.Mirror, lcore.Filter, error) {
	f, err := c.filter()
	if err != nil {
		return nil, f, err
	}
	b, ok := c.Env.Bridge.(capture.Mirror)
	if !ok {
		return nil, f, notAvailable(what)
	}
	if !c.has("port") {
		return b, f, nil
	}
	name, ethernet, infiniband := c.Value("port"), c.Env.ethernet(), c.Env.infinibandNames()
	at := slices.IndexFunc(ethernet, func(p bridge.EthernetPort) bool {
		return p.Name == name || strconv.Itoa(int(p.Number)) == name
	})
	if at < 0 && slices.Contains(infiniband, name) {
		return portMirror{b, name}, f, nil
	}
	if at < 0 {
		return nil, f, fmt.Errorf("%s: there is no port %q; write %s", what, name, possiblePorts(ethernet, infiniband))
	}
	f.Port, f.ByPort = ethernet[at].Number, len(ethernet) > 1 // all packets are of an only one
	return b, f, nil
}

// possiblePorts says what can be written for a port.
func possiblePorts(ethernet []bridge.EthernetPort, infiniband []string) string {
	var all []string
	for _, p := range ethernet {
		all = append(all, fmt.Sprintf("%d or %s", p.Number, p.Name))
	}
	return strings.Join(append(all, infiniband...), ", ")
}

// portMirror mirrors what one InfiniBand port brings or sends: of each packet the copies from where that is known.
type portMirror struct {
	all  capture.Mirror
	port string
}

// rememberedPackets bounds the packets whose further copies are followed.
const rememberedPackets = 4096

// Mirror implements capture.Mirror.
func (m portMirror) Mirror(ctx context.Context, f lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	of := map[uint64]bool{}
	return m.all.Mirror(ctx, f, snap, func(p lcore.MirroredPacket) bool {
		is := p.IB != nil && slices.Contains(strings.Split(p.IB.Ports, "+"), m.port)
		if is {
			if len(of) == rememberedPackets {
				clear(of)
			}
			of[p.Packet] = true
		}
		return !is && !of[p.Packet] || see(p)
	})
}
