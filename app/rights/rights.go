// SPDX-License-Identifier: Apache-2.0

// Package rights knows which capabilities (capabilities(7)) a bridge needs, and gives up the others.
package rights

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// A Right is a capability and its use.
type Right struct {
	Bit uint
	Why string // what the bridge does by it
}

// String returns the capability's name.
func (r Right) String() string { return nameOf[r.Bit] }

// Needed returns the capabilities without which a bridge does not start.
func Needed(c *config.Config) []Right {
	raw := Right{unix.CAP_NET_RAW, ""}
	admin := Right{unix.CAP_NET_ADMIN, "sets the MTU, and which addresses the port receives"}
	var out []Right
	has := func(kind string) bool {
		return slices.ContainsFunc(c.EthPorts(), func(p config.EthPort) bool { return p.Kind() == kind })
	}
	switch {
	case has("af_packet"): // and bonds of it
		raw.Why = "opens packet sockets"
		out = append(out, raw, admin)
	case has("mlx5"):
		raw.Why = "takes frames from the card"
		out = append(out, raw, admin)
	case has("tap"):
		admin.Why = "makes the tap"
		out = append(out, admin)
	}
	if c.IB.Learn && !slices.ContainsFunc(out, func(r Right) bool { return r.Bit == admin.Bit }) {
		admin.Why = "has the kernel ask who has an address on IPoIB"
		out = append(out, admin)
	}
	if raw.Why == "" && slices.ContainsFunc(c.Ports(), func(x config.IB) bool { return !x.Port.Fabric }) {
		raw.Why = "sends with Q_Keys that are controlled"
		out = append(out, raw)
	}
	return out
}

// privilegedPorts is the first port for which no capability is needed.
const privilegedPorts = 1024

// nameOf are the names of those that Kept and Reduce keep.
var nameOf = map[uint]string{
	unix.CAP_NET_RAW: "cap_net_raw", unix.CAP_NET_ADMIN: "cap_net_admin", unix.CAP_IPC_LOCK: "cap_ipc_lock",
	unix.CAP_NET_BIND_SERVICE: "cap_net_bind_service", unix.CAP_DAC_READ_SEARCH: "cap_dac_read_search",
}

// A Set is a set of capabilities, a bit each.
type Set uint64

// Kept returns the capabilities that a running bridge uses when it has them.
func Kept(c *config.Config) (s Set) {
	needed := Needed(c)
	for _, r := range needed {
		s |= 1 << r.Bit
	}
	if len(needed) > 0 { // packet rings and devices' memory are locked; a tap beside the kernel has a packet socket
		s |= 1<<unix.CAP_IPC_LOCK | 1<<unix.CAP_NET_RAW
	}
	if bindsPrivileged(c) {
		s |= 1 << unix.CAP_NET_BIND_SERVICE
	}
	return s
}

// bindsPrivileged reports whether a listener or a service has a port below 1024.
func bindsPrivileged(c *config.Config) bool {
	for _, l := range append([]config.Listen{c.Metrics.Listen}, c.Console.Listen...) {
		_, port, _ := net.SplitHostPort(l.Address) // a Unix socket's path has no port
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && 0 < n && n < privilegedPorts {
			return true
		}
	}
	return slices.ContainsFunc(c.Services, func(s config.Service) bool { return s.First < privilegedPorts })
}

// Has reports whether a capability is in the set.
func (s Set) Has(bit uint) bool { return s>>bit&1 == 1 }

// String returns the names of the capabilities.
func (s Set) String() string {
	var names []string
	for bit := range uint(64) {
		if !s.Has(bit) {
			continue
		}
		name, known := nameOf[bit]
		if !known {
			name = fmt.Sprint(bit)
		}
		names = append(names, name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ",")
}
