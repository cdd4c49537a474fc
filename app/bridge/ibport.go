// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/ibside/ipoib"
	"causeway/ibside/verbs"
)

// ErrDeviceGone is what Run fails with, among others, when the RDMA device or a part of it is lost, or the Ethernet
// port's interface. Only a new process can use it again.
var ErrDeviceGone = verbs.ErrDeviceGone

// openIBPort opens the port x of [ib] or an [[ib]]. onLoss is called when it is lost. A subnet replaces the one that a
// fabric: port describes, where the port has a name of its own.
func openIBPort(cfg *config.Config, x *config.IB, name string, pool *dpdk.Mempool, lcores []uint, subnet *fabric.Fabric, onLoss func(error), log *slog.Logger) (ibside.OpenPort, error) {
	if x.Port.Fabric {
		return fabricport.Open(fabricport.Config{
			Subnet: subnet, File: x.Port.File, Name: name, PKey: x.PKey,
			Pool: pool, Workers: len(cfg.Workers.LCores), Lcores: lcores, Log: log,
		})
	}
	p, err := verbs.Open(verbs.Config{
		Device: x.Port.Device, Port: int(x.Port.Num), PKey: x.PKey, GID: x.GID,
		Pool: pool, Workers: len(cfg.Workers.LCores), Lcores: lcores, ProxyQPs: workerQPs(&cfg.Workers),
		Receives: cfg.Workers.RecvBuffers, SendDepth: cfg.Workers.ProxyQPDepth, Pending: roomsOf(cfg).handles,
		Portable: !x.Direct, Log: log, OnLoss: onLoss,
	})
	if err != nil {
		return nil, fmt.Errorf("bridge: [ib] port \"%s:%d\": %w", x.Port.Device, x.Port.Num, err)
	}
	return p, nil
}

// workerQPs returns how many queue pairs each worker has room for: all proxy QPs, because the hosts' traffic decides
// which worker gets them, and in the worst case one for each group. So management has no limit of a worker to keep
// beside [workers] proxy_qps: a host that is told of a service finds room on whichever worker its messages come to.
func workerQPs(w *config.Workers) int { return w.ProxyQPs + w.Groups }

// openResolver follows the kernel's neighbours on IPoIB, if nodes are learned.
func openResolver(cfg *config.Config, p ibside.OpenPort, log *slog.Logger) (*ipoib.Neighbours, error) {
	if !cfg.IB.Learn {
		return nil, nil
	}
	if p.Info().Ethernet {
		return nil, errors.New(`bridge: [ib] nodes = "learn": the port's link layer is Ethernet, where there are no LIDs and no IPoIB; ` +
			`write nodes = "configured", and a [[host]] for each node`)
	}
	if _, ok := p.(ibside.Locator); !ok {
		return nil, errors.New(`bridge: [ib] nodes = "learn": the subnet administrator cannot be asked (no_subnet_client says why); ` +
			`let the bridge open /dev/infiniband/umadN, or write nodes = "configured"`)
	}
	return ipoib.Follow(ipoib.Config{Interface: cfg.IB.IPoIB, PKey: cfg.IB.PKey, Log: log, Port: func() []ib.GID { return p.Own().GIDs }}), nil
}

// RefreshSubnet asks the subnet administrator again for all paths and memberships. Messages are carried as before
// meanwhile.
func (b *Bridge) RefreshSubnet() error {
	p, ok := b.ibPort.(interface{ Refresh() })
	if !ok {
		return errors.New("bridge: the port asks no subnet administrator: its link layer is Ethernet, or the log has no_subnet_client")
	}
	p.Refresh()
	return nil
}

// ibPortName returns the port as the configuration has it.
func ibPortName(p config.IBPort) string {
	if p.Fabric {
		return "fabric:" + p.File
	}
	return fmt.Sprintf("%s:%d", p.Device, p.Num)
}

// ibPortNames returns all of them.
func ibPortNames(cfg *config.Config) string {
	var names []string
	for _, x := range cfg.Ports() {
		names = append(names, ibPortName(x.Port))
	}
	return strings.Join(names, ", ")
}

// portsOf are the ports of services.
func portsOf(services []config.Service) (ports []ibside.PortRange) {
	for _, s := range services {
		ports = append(ports, ibside.PortRange{First: s.First, Last: s.Last})
	}
	return ports
}
