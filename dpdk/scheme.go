// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// scheme is a kind of port: what stands before the ':' of a port name.
type scheme struct {
	name   string
	form   string // what to write
	driver string // the PMD
	plan   func(arg string, config *PortConfig) (portPlan, error)
}

// portPlan is a port name and its PortConfig, checked and put in the PMD's words.
type portPlan struct {
	args     string // of the vdev
	mtu      int
	mbufRoom int        // bytes after the headroom that the PMD may fill
	tellMTU  bool       // the PMD keeps to an MTU; others report a limit of 1500 and have none
	netdev   string     // the kernel interface whose MTU is ours to set
	remote   string     // the kernel interface that a tap shares, if any
	needs    capability // without which opening it fails
	rxWakes  rxWakes    // what wakes a thread that waits for frames
	misses   misses     // who counts frames that the PMD never receives
	rings    Rings      // of the kernel, that the PMD maps
	caveat   string     // what this plan lacks
	carriers []string   // the kernel's interfaces that the port lives on
	waits    bool       // the kernel interface is not set up: see Port.Waiting
	mac      [6]byte    // of an interface that is waited for
	captured int        // index of the kernel interface whose packet sockets the PMD opens; 0: it opens none
}

// What to write for each kind of port that has an argument.
const (
	formMlx5     = "mlx5:PCI-ADDRESS"
	formAFPacket = "af_packet:INTERFACE"
	formTap      = "tap:NEW-INTERFACE[,remote=INTERFACE]"
	formMemif    = "memif:SOCKET[,role=server|client][,id=N]"
	formPcap     = "pcap:IN-FILE[,OUT-FILE]"
	formBond     = "bond:active-backup|lacp,PORT,PORT[,PORT…]"
)

var (
	schemeMlx5 = scheme{"mlx5", formMlx5, "net_mlx5", planMlx5}
	schemeRing = scheme{"ring", "ring", "net_ring", planRing}
	schemeBond = scheme{"bond", formBond, "net_bond", planBond}
)

var schemes = []*scheme{
	&schemeMlx5,
	{"af_packet", formAFPacket, "net_af_packet", planAFPacket},
	{"tap", formTap, "net_tap", planTap},
	{"memif", formMemif, "net_memif", planMemif},
	&schemeRing,
	{"null", "null[:FRAME-BYTES]", "net_null", planNull},
	{"pcap", formPcap, "net_pcap", planPcap},
	&schemeBond,
}

// parsePortName splits a port name into its scheme and the rest.
func parsePortName(name string) (*scheme, string, error) {
	kind, arg, _ := strings.Cut(name, ":")
	var forms []string
	for _, s := range schemes {
		if s.name == kind {
			return s, arg, nil
		}
		forms = append(forms, s.form)
	}
	return nil, "", fmt.Errorf("%q is no kind of port; use %s", kind, strings.Join(forms, ", "))
}

// driverThere fails when the PMD is not installed, naming the Debian package that has it.
func driverThere(driver string) error {
	var loaded bool
	_ = withCString(driver, func(c *C.char) C.int { loaded = bool(C.dpdk_driver_loaded(c)); return 0 })
	if loaded {
		return nil
	}
	return fmt.Errorf("the driver %s is not installed: install the package %s", driver, driverPackage(driver, uint(C.dpdk_abi())))
}

// driverPackage is Debian's name for a PMD's package: librte-net-memif23, but librte-net-mlx5-23.
func driverPackage(driver string, abi uint) string {
	name := "librte-" + strings.ReplaceAll(driver, "_", "-")
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "-"
	}
	return fmt.Sprintf("%s%d", name, abi)
}

func notSupported(err error) bool {
	return errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS)
}

// frameRoom is the longest frame, without FCS, that an MTU lets through.
func frameRoom(mtu int) int { return mtu + etherOverhead }

func mtuOr(mtu, otherwise int) int {
	if mtu == 0 {
		return otherwise
	}
	return mtu
}
