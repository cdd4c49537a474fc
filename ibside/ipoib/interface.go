// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// addressLen is the length of a link-layer address, and gidAt where its GID begins.
const (
	addressLen = 20
	gidAt      = 4
)

// gidOf returns the GID of a link-layer address; false when it is not IPoIB's.
func gidOf(address net.HardwareAddr) (gid ib.GID, ok bool) {
	if len(address) != addressLen {
		return gid, false
	}
	gid = ib.GID(address[gidAt:])
	return gid, !gid.IsZero() && !gid.IsMulticast()
}

// InterfacesOf returns the IPoIB interfaces that are up, on the port with these GIDs, and in the partition of a P_Key.
func InterfacesOf(port []ib.GID, pkey ib.PKey) ([]net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("ipoib: list interfaces: %w", err)
	}
	var found []net.Interface
	for _, i := range all {
		gid, ok := gidOf(i.HardwareAddr)
		if ok && slices.Contains(port, gid) && i.Flags&net.FlagUp != 0 && pkeyOf(i.Name) == pkey|fullMember {
			found = append(found, i)
		}
	}
	return found, nil
}

// fullMember is the membership bit of a P_Key, which the kernel shows in any case.
const fullMember = 0x8000

// pkeyOf returns the P_Key of an IPoIB interface; 0 if that cannot be read.
func pkeyOf(name string) ib.PKey {
	text, err := os.ReadFile(fmt.Sprintf("/sys/class/net/%s/pkey", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
	return ib.PKey(n)
}

// find returns the interface that the configuration names, or else that of the port.
func (c *Config) find() (*net.Interface, error) {
	if c.Interface != "" {
		i, err := net.InterfaceByName(c.Interface)
		if err != nil {
			return nil, fmt.Errorf("ipoib: interface %s: %w; ip link shows the existing ones", c.Interface, err)
		}
		if i.Flags&net.FlagUp == 0 {
			return nil, fmt.Errorf("ipoib: interface %s is down; ip link set %[1]s up", c.Interface)
		}
		return i, nil
	}
	found, err := InterfacesOf(c.Port(), c.PKey)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("ipoib: no interface of the port is up in the partition %v; "+
			"modprobe ib_ipoib, ip link set ib0 up, or name one in [ib] ipoib", c.PKey)
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// subnetsOf returns the subnets of an interface's addresses, but for link-local ones.
func subnetsOf(i *net.Interface) (subnets []netip.Prefix) {
	addresses, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			subnets = append(subnets, p.Masked())
		}
	}
	return subnets
}
