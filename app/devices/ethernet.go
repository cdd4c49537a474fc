// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	pciDevices = "bus/pci/devices"
	classNet   = "class/net"

	mellanox   = "0x15b3" // PCI vendor id of every ConnectX
	mlx5Driver = "mlx5_core"

	arphrdEther      = 1  // linux/if_arp.h
	arphrdInfiniBand = 32 // IPoIB
	arphrdLoopback   = 772

	iffUp = 1 // linux/if.h
)

// function is a function of a PCI card.
type function struct {
	address string
	vendor  string
	class   string // 0x020000: Ethernet; 0x020700: InfiniBand
	driver  string
	netdevs []string
	rdma    []string
}

// functions lists the PCI functions that are network controllers (class 02), or have interfaces or RDMA devices.
// Which interface belongs to which function is read from the function's side: no link need be followed back.
func (s sysfs) functions() []function {
	var out []function
	for _, address := range s.names(pciDevices) {
		at := path.Join(pciDevices, address)
		f := function{
			address: address, vendor: s.text(at, "vendor"), class: s.text(at, "class"),
			driver:  s.uevent("DRIVER", at),
			netdevs: s.names(at, "net"), rdma: s.names(at, "infiniband"),
		}
		below, _ := fs.Glob(s.root, at+"/virtio*/net/*")
		for _, n := range below {
			f.netdevs = append(f.netdevs, path.Base(n))
		}
		if strings.HasPrefix(f.class, "0x02") || len(f.netdevs)+len(f.rdma) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// ethPorts lists the network interfaces but loopback, and after them the network functions that have none.
func (s sysfs) ethPorts(pci []function) []EthPort {
	out := []EthPort{}
	for _, name := range s.names(classNet) {
		e := s.netdev(name)
		if e.Type == 0 || e.Type == arphrdLoopback { // also bonding_masters, which is a file
			continue
		}
		for _, f := range pci {
			if slices.Contains(f.netdevs, name) {
				e.PCI, e.connectX = f.address, f.vendor == mellanox
			}
		}
		out = append(out, e)
	}
	for _, f := range pci {
		if strings.HasPrefix(f.class, "0x02") && len(f.netdevs) == 0 {
			out = append(out, EthPort{Driver: f.driver, PCI: f.address, connectX: f.vendor == mellanox, Link: "-"})
		}
	}
	return out
}

// netdev reads an interface (Linux Documentation/ABI/testing/sysfs-class-net).
func (s sysfs) netdev(name string) EthPort {
	at := path.Join(classNet, name)
	e := EthPort{
		Netdev: name, Type: s.number(at, "type"), MTU: s.number(at, "mtu"), MAC: s.text(at, "address"),
		Driver: s.uevent("DRIVER", at, "device"), Link: "up",
	}
	if e.Driver == "" {
		e.Driver = s.uevent("DEVTYPE", at) // bridge, vlan, bond
	}
	switch operstate := s.text(at, "operstate"); {
	case s.number(at, "flags")&iffUp == 0:
		e.Link = "down"
	case s.text(at, "carrier") == "0" || operstate == "down" || operstate == "lowerlayerdown":
		e.Link = "no carrier"
	}
	return e
}
