// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"causeway/app/traffic"
	"causeway/ibside/ib"
)

// endpointOptions are the options of the endpoint of "causeway send" and "causeway listen".
type endpointOptions struct {
	config traffic.Config
	group  traffic.Group // without its address
	asJSON bool
}

// endpointHelp ends the help of both commands.
const endpointHelp = `

-on names the endpoint:
  fabric:SOCKET      an InfiniBand node on a bridge's software subnet, whose file has that socket
  packet:INTERFACE   a RoCE host on a network interface, as root, with the interface's addresses; the kernel resolves
                     its neighbours and joins its groups
  verbs:DEVICE       an RDMA device, such as mlx5_0 or, for another port than the first, mlx5_0:2; the kernel joins its
                     groups on Ethernet, the subnet manager on InfiniBand`

func (o *endpointOptions) flags(fs *flag.FlagSet) {
	o.config.RoCE = 2
	fs.StringVar(&o.config.On, "on", "", "the `ENDPOINT`: fabric:SOCKET, packet:INTERFACE or verbs:DEVICE")
	fs.Func("qkey", "the `QKEY` of messages and groups (default 0x01234567; of IPoIB's groups 0x0b1b)", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 32)
		if err != nil || ib.QKey(n).IsControlled() || n == 0 {
			return fmt.Errorf("write a number below 0x80000000, such as 0x01234567")
		}
		o.config.QKey, o.group.QKey = ib.QKey(n), ib.QKey(n)
		return nil
	})
	fs.StringVar(&o.group.Form, "mgid", "", "InfiniBand: a group's `FORM` of MGID: rdmacm, ipoib, port, ib, or a literal MGID\n(default rdmacm; with -port: port)")
	fs.Func("port", "InfiniBand: the UDP `PORT` in the group's MGID", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 16)
		o.group.Port = uint16(n)
		return require(err == nil && n > 0, "write 1 to 65535")
	})
	fs.Func("scope", "InfiniBand: the `SCOPE` in the group's MGID (default 2)", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 8)
		o.group.Scope = uint8(n)
		return require(err == nil && n >= 1 && n <= 14, "write 1 to 14")
	})
	fs.StringVar(&o.config.Name, "name", fs.Name(), "fabric: the node's `NAME` on the subnet")
	fs.Func("guid", "fabric: the node's port `GUID`, such as 0x0002c90300000007 (default: a new one). To cross\nthe bridge, that of a [[host]] in its configuration", o.setGUID)
	fs.Func("ip", "packet: the `ADDRESS` of the interface to use, such as 10.9.0.5; once for IPv4, once for\nIPv6 (default: the first of each)", o.addIP)
	fs.Func("roce", "packet: the RoCE `VERSION` to send, 1 or 2 (default 2)", func(s string) error {
		o.config.RoCE = map[string]int{"1": 1, "2": 2}[s]
		return require(o.config.RoCE != 0, "write 1 or 2")
	})
	fs.BoolVar(&o.asJSON, "json", false, "print JSON, a line each: the endpoint, and the result")
}

// require returns the error that says what to write, unless the value is valid.
func require(valid bool, what string) error {
	if valid {
		return nil
	}
	return fmt.Errorf("%s", what)
}

func (o *endpointOptions) setGUID(s string) error {
	n, err := strconv.ParseUint(strings.NewReplacer("0x", "", ":", "").Replace(s), 16, 64)
	o.config.GUID = ib.GUID(n)
	return require(err == nil && n != 0, "write it like 0x0002c90300000007")
}

func (o *endpointOptions) addIP(s string) error {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.IsMulticast() || ip.IsUnspecified() || ip.Is4In6() || ip.Zone() != "" {
		return require(false, "write an address of the interface, such as 10.9.0.5")
	}
	for _, has := range o.config.IP {
		if has.Is6() == ip.Is6() {
			return require(false, fmt.Sprintf("the host has %v already; it may have one IPv4 and one IPv6 address", has))
		}
	}
	o.config.IP = append(o.config.IP, ip)
	return nil
}

// parseQPN parses a queue pair number.
func parseQPN(to *ib.QPN) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseUint(s, 0, 24)
		*to = ib.QPN(n)
		return require(err == nil && n > 1 && ib.QPN(n) != ib.QPMulticast, "write a number from 2 to 0xfffffe")
	}
}

// check returns what is wrong with the options; "": nothing.
func (o *endpointOptions) check() string {
	kind, _, _ := strings.Cut(o.config.On, ":")
	isGroup := o.group.Form != "" || o.group.Port != 0 || o.group.Scope != 0
	onPacket := len(o.config.IP) > 0 || o.config.RoCE == 1
	switch {
	case o.config.On == "":
		return "name the endpoint with -on: fabric:SOCKET, packet:INTERFACE or verbs:DEVICE"
	case kind != "fabric" && o.config.GUID != 0:
		return "-guid is for -on fabric:SOCKET"
	case kind == "packet" && isGroup:
		return "-mgid, -port and -scope make a group's MGID on InfiniBand, and -on packet:INTERFACE is RoCE"
	case kind != "packet" && onPacket:
		return "-ip and -roce are for -on packet:INTERFACE"
	case o.group.Form == "port" && o.group.Port == 0:
		return "-mgid port needs the UDP port; give it with -port"
	}
	return ""
}
