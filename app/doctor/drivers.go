// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"causeway/config"
)

// pmds are the driver directories of Debian, of other distributions, and of DPDK's own installation.
var pmds = []string{"usr/lib/*/dpdk/pmds-*", "usr/lib64/dpdk/pmds-*", "usr/lib/dpdk/pmds-*", "usr/local/lib/*/dpdk/pmds-*",
	"usr/local/lib64/dpdk/pmds-*"}

// kinds are the kinds of Ethernet port, in the words of the configuration.
var kinds = []string{"mlx5", "af_packet", "tap", "memif", "pcap", "ring", "null"}

// A driverProbe checks drivers: DPDK's, the kernel's, and their device files.
type driverProbe struct {
	cfg       *config.Config // nil: none
	sys, root tree
	process   Process
	ports     *ports
}

func newDriverProbe(c *config.Config, s Sources, ports *ports) *driverProbe {
	return &driverProbe{cfg: c, sys: tree{s.Sys}, root: tree{s.Root}, process: s.Process, ports: ports}
}

// checkPMD requires DPDK's driver for the Ethernet port, a library that DPDK loads at start.
func (p *driverProbe) checkPMD() []Finding {
	if p.cfg == nil {
		var have []string
		for _, kind := range kinds {
			if p.hasPMD("net_" + kind) {
				have = append(have, kind)
			}
		}
		return fine("DPDK has drivers for: %s", orNone(strings.Join(have, " ")))
	}
	var out []Finding
	for _, name := range []string{"net_" + p.cfg.RoCE.Port.Kind(), "mempool_ring"} { // with net_bond, Causeway is linked
		if p.hasPMD(name) {
			continue
		}
		debian := "librte-" + strings.ReplaceAll(name, "_", "-")
		out = append(out, bad(Fail, fmt.Sprintf("DPDK's driver %s is not installed (librte_%[1]s.so): the bridge does not start", name),
			fmt.Sprintf("apt-get install -y %s23 || apt-get install -y '^%[1]s[0-9]+$'", debian)))
	}
	if out == nil {
		return fine("DPDK has the driver %s", p.cfg.RoCE.Port.Kind())
	}
	return out
}

func (p *driverProbe) hasPMD(name string) bool {
	for _, dir := range pmds {
		if len(p.root.glob(dir+"/librte_"+name+".so*")) > 0 {
			return true
		}
	}
	return false
}

// checkCard requires the kernel's driver for the ConnectX, beside which DPDK's works.
func (p *driverProbe) checkCard() []Finding {
	if p.cfg == nil || p.cfg.RoCE.Port.Driver != "mlx5" {
		return nil
	}
	pci, card := p.cfg.RoCE.Port.Arg, p.ports.card
	switch {
	case card == nil:
		return []Finding{bad(Fail, "there is no network card at "+pci, "causeway devices # lists the existing ones")}
	case card.Driver == "":
		return []Finding{bad(Fail, pci+" has no driver in the kernel, which DPDK's mlx5 works beside", "modprobe mlx5_core")}
	case card.Driver != mlx5Driver:
		return []Finding{bad(Fail, fmt.Sprintf("%s is %s's; DPDK's mlx5 works beside the kernel's mlx5_core", pci, card.Driver),
			rebind(pci, card.Driver, mlx5Driver)...)}
	case len(card.RDMA) == 0:
		return []Finding{bad(Fail, pci+" has no RDMA device, which DPDK's mlx5 works through", "modprobe mlx5_ib")}
	}
	return fine("%s is mlx5_core's, with %s", pci, strings.Join(card.RDMA, " "))
}

// rebind moves a PCI function from one driver to another.
func rebind(pci, from, to string) []string {
	return []string{
		"modprobe " + to,
		fmt.Sprintf("echo > /sys/bus/pci/devices/%s/driver_override", pci),
		fmt.Sprintf("echo %s > /sys/bus/pci/drivers/%s/unbind", pci, from),
		fmt.Sprintf("echo %s > /sys/bus/pci/drivers/%s/bind", pci, to),
	}
}

// checkRDMADevice requires the InfiniBand port's device, or another process's subnet.
func (p *driverProbe) checkRDMADevice() []Finding {
	if p.cfg == nil {
		return nil
	}
	name := p.cfg.IB.Port.String()
	switch why, _ := NoSubnet(p.cfg.IB.Port); {
	case why != "":
		return []Finding{bad(Fail, name+": "+why, "# start that process; the bridge is to run as its user, or as root")}
	case p.cfg.IB.Port.Fabric:
		return nil
	}
	if p.ports.ib != nil {
		return fine("there is %s", name)
	}
	fix := []string{"causeway devices # lists the existing ones"}
	if p.sys.has("bus/pci/drivers", mlx5Driver) && len(p.ports.machine.RDMA) == 0 {
		fix = []string{"modprobe mlx5_ib"}
	}
	return []Finding{bad(Fail, fmt.Sprintf("there is no RDMA port %s here", name), fix...)}
}

// A deviceFile is a device file that the bridge opens, with its kernel module and its path in sysfs.
type deviceFile struct{ path, module, sysfs, what string }

// files returns the device files that the configuration needs.
func (p *driverProbe) files() []deviceFile {
	var out []deviceFile
	if p.cfg.RoCE.Port.Driver == "tap" {
		out = append(out, deviceFile{"/dev/net/tun", "tun", "class/misc/tun", "the tap"})
	}
	if card := p.ports.card; card != nil && len(card.RDMA) > 0 {
		out = append(out, p.uverbs(card.RDMA[0]))
	}
	if port := p.ports.ib; port != nil {
		out = append(out, p.uverbs(port.Device), deviceFile{"/dev/infiniband/rdma_cm", "rdma_ucm", "class/misc/rdma_cm", "groups and services"})
	}
	return out
}

func (p *driverProbe) uverbs(device string) deviceFile {
	f := deviceFile{"/dev/infiniband/uverbsN", "ib_uverbs", "class/infiniband_verbs", "verbs of " + device}
	for _, at := range p.sys.glob("class/infiniband_verbs/uverbs*") {
		if p.sys.text(at, "ibdev") == device {
			f.path, f.sysfs = "/dev/infiniband/"+path.Base(at), at
		}
	}
	return f
}

// checkFiles requires device files to exist and to be accessible.
func (p *driverProbe) checkFiles() []Finding {
	if p.cfg == nil {
		return nil
	}
	var out []Finding
	var well []string
	for _, f := range p.files() {
		if found, is := p.checkFile(f); !is {
			out = append(out, found)
		} else {
			well = append(well, f.path)
		}
	}
	if len(well) > 0 {
		out = append(out, ok("%s can be opened", strings.Join(well, ", ")))
	}
	return out
}

// checkFile returns why this process cannot open a device file. A driver that is built in appears in sysfs only once it
// is used.
func (p *driverProbe) checkFile(f deviceFile) (Finding, bool) {
	err := p.process.Access(f.path)
	switch {
	case err == nil:
		return Finding{}, true
	case errors.Is(err, fs.ErrNotExist) && (strings.HasSuffix(f.path, "N") || !p.sys.has(f.sysfs)):
		return bad(Fail, fmt.Sprintf("there is no %s, which %s needs: the module %s is not loaded", f.path, f.what, f.module),
			"modprobe "+f.module), false
	case errors.Is(err, fs.ErrNotExist):
		return bad(Fail, fmt.Sprintf("the kernel has %s, but the file is not there, which %s needs", f.path, f.what),
			"# run udev; in a container, pass it in: docker run --device "+f.path), false
	}
	return bad(Fail, fmt.Sprintf("%s, which %s needs: %v", f.path, f.what, err),
		"# run the bridge as root, or give its user the file by a udev rule; in a container, pass it in: docker run --device "+f.path), false
}
