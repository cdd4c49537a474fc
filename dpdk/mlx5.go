// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mellanoxVendor is the PCI vendor id of every ConnectX.
const mellanoxVendor = "0x15b3"

// planMlx5 takes a port of a ConnectX beside the kernel (a bifurcated driver): what no flow rule asks for stays
// with the kernel once the port is isolated.
func planMlx5(arg string, config *PortConfig) (portPlan, error) {
	if !pciPattern.MatchString(arg) {
		return portPlan{}, fmt.Errorf("%q is no PCI address; write it as mlx5:0000:3b:00.0", arg)
	}
	if err := connectXThere(strings.ToLower(arg)); err != nil {
		return portPlan{}, err
	}
	mtu := mtuOr(config.MTU, defaultMTU)
	return portPlan{mtu: mtu, mbufRoom: frameRoom(mtu), tellMTU: true, rxWakes: rxWakesByInterrupt}, nil
}

// Caveat says what a port lacks of what it was to have, or what may keep it from receiving what its rules ask for; or
// "". A ConnectX whose RoCE is enabled, as it is by default, handles what comes to RoCE's UDP port itself; disabled,
// that is plain Ethernet to it (Linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5, enable_roce).
func (p *Port) Caveat() string {
	if p.bus != "pci" {
		return p.plan.caveat
	}
	types, _ := filepath.Glob(filepath.Join(sysRoot, "sys/bus/pci/devices", p.device, "infiniband/*/ports/*/gid_attrs/types/*"))
	for _, file := range types {
		if strings.Contains(readLine(file), "RoCE") { // a GID; those that are not there cannot be read
			return fmt.Sprintf("RoCE is enabled in the card, which then may keep it from the port: devlink dev param set pci/%s "+
				"name enable_roce value false cmode driverinit && devlink dev reload pci/%[1]s", p.device)
		}
	}
	return ""
}

// connectXThere tells what is missing before DPDK, which would only say that there is no such device.
func connectXThere(address string) error {
	device := filepath.Join(sysRoot, "sys/bus/pci/devices", address)
	if _, err := os.Stat(device); err != nil {
		return fmt.Errorf("there is no PCI device %s; of ConnectX devices there are: %s", address, connectXNames())
	}
	if vendor := readLine(filepath.Join(device, "vendor")); vendor != mellanoxVendor {
		return fmt.Errorf("PCI device %s is no ConnectX: its vendor is %s, not %s", address, vendor, mellanoxVendor)
	}
	if found, _ := filepath.Glob(filepath.Join(device, "infiniband/*")); len(found) == 0 {
		return fmt.Errorf("PCI device %s has no RDMA device, which the driver works through: modprobe mlx5_ib", address)
	}
	if found, _ := filepath.Glob(filepath.Join(sysRoot, "sys/class/infiniband_verbs/uverbs*")); len(found) == 0 {
		return fmt.Errorf("PCI device %s cannot be used from user space: modprobe ib_uverbs", address)
	}
	return nil
}

func connectXNames() string {
	devices, _ := filepath.Glob(filepath.Join(sysRoot, "sys/bus/pci/devices/*"))
	var names []string
	for _, device := range devices {
		if readLine(filepath.Join(device, "vendor")) == mellanoxVendor {
			names = append(names, filepath.Base(device))
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// plugPCI looks up the port that the EAL probed when it started, or probes it again after a Close.
func (p *Port) plugPCI(eal *EAL) error {
	_, address, _ := strings.Cut(p.name, ":")
	p.device, p.bus = strings.ToLower(address), "pci"
	for _, allowed := range eal.pci {
		name, args, _ := strings.Cut(allowed, ",")
		if !strings.EqualFold(name, address) {
			continue
		}
		if p.find() == nil {
			return nil
		}
		if err := p.probe("pci", args); err != nil {
			return fmt.Errorf("the mlx5 driver did not take %s; see its firmware, rdma-core and CAP_NET_RAW: %w", p.device, why(err))
		}
		return nil
	}
	return fmt.Errorf("the EAL was started without %s; name it in EALConfig.PCI", p.device)
}

// KernelBond says of which bond of the kernel's a card's port is, and in which mode; "": of none. The card has taken the
// bond over then: its interface is the bond's own, and its frames come and go by either of the card's ports.
func (p *Port) KernelBond() string {
	if p.bus != "pci" {
		return ""
	}
	for _, name := range p.Carriers() {
		if mode := readLine(filepath.Join(sysRoot, "sys/class/net", name, "bonding/mode")); mode != "unknown" {
			return name + " (" + mode + ")"
		}
	}
	return ""
}
