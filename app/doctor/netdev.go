// SPDX-License-Identifier: Apache-2.0

package doctor

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
// It reads the relation from the function's directory, so that no symbolic link needs to be resolved.
func (t tree) functions() []function {
	var out []function
	for _, address := range t.names(pciDevices) {
		at := path.Join(pciDevices, address)
		f := function{
			address: address, vendor: t.text(at, "vendor"), class: t.text(at, "class"),
			driver:  t.uevent("DRIVER", at),
			netdevs: t.names(at, "net"), rdma: t.names(at, "infiniband"),
		}
		below, _ := fs.Glob(t, at+"/virtio*/net/*")
		for _, n := range below {
			f.netdevs = append(f.netdevs, path.Base(n))
		}
		if strings.HasPrefix(f.class, "0x02") || len(f.netdevs)+len(f.rdma) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// ethPorts lists the network interfaces except loopback, then the network functions without an interface.
func (t tree) ethPorts(pci []function) []EthPort {
	out := []EthPort{}
	for _, name := range t.names(classNet) {
		e := t.netdev(name)
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
func (t tree) netdev(name string) EthPort {
	at := path.Join(classNet, name)
	e := EthPort{
		Netdev: name, Type: t.number(at, "type"), MTU: t.number(at, "mtu"), MAC: t.text(at, "address"),
		Driver: t.uevent("DRIVER", at, "device"), Link: "up",
	}
	if e.Driver == "" {
		e.Driver = t.uevent("DEVTYPE", at) // bridge, vlan, bond
	}
	switch operstate := t.text(at, "operstate"); {
	case t.number(at, "flags")&iffUp == 0:
		e.Link = "down"
	case t.text(at, "carrier") == "0" || operstate == "down" || operstate == "lowerlayerdown":
		e.Link = "no carrier"
	}
	return e
}
