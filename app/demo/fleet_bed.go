// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"causeway/app/console"
	"causeway/app/segment"
	"causeway/fleet/shards"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

const (
	fleetBridges = 3
	fleetNode    = 1 // its number among the demonstration's addresses
)

var bridgeNames = [fleetBridges]string{"m1", "m2", "m3"}

// A fleetbed is everything of -fleet. A machine is a namespace with a bridge and a voter, which are processes of their own.
type fleetbed struct {
	*testbed
	dir      string           // of configurations, sockets and the voters' data
	program  string           // this one
	etcd     string           // its server
	network  *segment.Segment // of the voters
	machines [fleetBridges]netns.NsHandle
	news     chan struct{} // a process has said something
	bridges  [fleetBridges]*process
	flows    []*fleetFlow
	looks    chan counts // while messages are sent
	now      counts      // the last look
}

// newFleetbed makes everything, and starts nothing.
func newFleetbed() (*fleetbed, error) {
	b := &fleetbed{testbed: &testbed{}, news: make(chan struct{}, 1), looks: make(chan counts)}
	for _, step := range []func() error{b.findPrograms, b.makeDir, b.makeSegment, b.makeMachines,
		func() error { return b.makeHosts(segment.NewNamespace, segment.NewNamespace, segment.NewNamespace) }, b.makeFleetSubnet} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("demo: %w", err), b.close())
		}
	}
	return b, nil
}

// findPrograms finds what to start.
func (b *fleetbed) findPrograms() (err error) {
	if b.program, err = os.Executable(); err != nil {
		return err
	}
	if b.etcd, err = exec.LookPath("etcd"); err != nil {
		return errors.New("-fleet needs the program etcd, which is not in PATH; install it: apt-get install etcd-server")
	}
	return nil
}

func (b *fleetbed) makeDir() (err error) {
	if b.dir, err = os.MkdirTemp("", "causeway-demo-"); err == nil {
		b.onClose(func() error { return os.RemoveAll(b.dir) })
	}
	return err
}

func (b *fleetbed) path(name string) string { return filepath.Join(b.dir, name) }

// makeMachines makes a machine for each bridge, with a cable to the hosts' segment and another to the voters' network.
func (b *fleetbed) makeMachines() (err error) {
	if b.network, err = segment.New(); err != nil {
		return err
	}
	b.onClose(b.network.Close)
	for n, name := range bridgeNames {
		ns, err := segment.NewNamespace()
		if err != nil {
			return err
		}
		b.machines[n] = ns
		b.onClose(ns.Close)
		if err := b.network.Connect(ns, name, machineIP4(n), machineIP6(n)); err != nil {
			return err
		}
		if err := b.segment.AddPort(ns, portName(n)); err != nil {
			return err
		}
	}
	return nil
}

// makeFleetSubnet makes the InfiniBand side: a subnet that the bridges attach to, and its node, which listens and sends.
func (b *fleetbed) makeFleetSubnet() (err error) {
	if b.subnet, err = fabric.New(fabric.Config{Socket: b.path("subnet.sock")}); err != nil {
		return err
	}
	b.onClose(b.subnet.Close)
	n, err := b.node(fleetNode, fabric.RoleListen, fabric.GroupConfig{MGID: mgidOf(toIB), QKey: ib.QKeyRDMAUDP})
	if err != nil {
		return err
	}
	b.nodes = append(b.nodes, n)
	b.onClose(n.Close)
	return nil
}

// start starts a process on a machine.
func (b *fleetbed) start(n int, name string, words ...string) (*process, error) {
	p, err := start(b.machines[n], b.news, name, words...)
	if err == nil {
		b.onClose(p.kill)
	}
	return p, err
}

// startVoters starts three voters, and waits until they serve.
func (b *fleetbed) startVoters(ctx context.Context) error {
	var all []*process
	for n := range fleetBridges {
		p, err := b.start(n, voterName(n), b.voterCommand(n)...)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	return b.await(ctx, "the voters do not serve", all, func() bool {
		serving := 0
		for _, p := range all {
			if p.says().serves {
				serving++
			}
		}
		return serving == len(all)
	})
}

func (b *fleetbed) startBridge(n int) (err error) {
	file := b.path(bridgeNames[n] + ".toml")
	if err = os.WriteFile(file, []byte(b.bridgeFile(n)), 0o600); err == nil {
		b.bridges[n], err = b.start(n, bridgeNames[n], b.program, "run", "-c", file)
	}
	return err
}

// fleetPatience is far more than anything here takes.
const fleetPatience = 30 * time.Second

// await waits until something is so, which these processes say. None of them may end meanwhile.
func (b *fleetbed) await(ctx context.Context, otherwise string, these []*process, so func() bool) error {
	late := time.After(fleetPatience)
	for !so() {
		if err := haveEnded(these); err != nil {
			return err
		}
		select {
		case <-b.news:
		case <-ctx.Done():
			return errors.New("stopped before the bridges were ready")
		case <-late:
			return fmt.Errorf("%s within %v", otherwise, fleetPatience)
		}
	}
	return nil
}

// haveEnded says which of these has ended, and its last words.
func haveEnded(these []*process) error {
	for _, p := range these {
		if p.hasEnded() {
			return fmt.Errorf("%s has ended: %s", p.name, p.says().last)
		}
	}
	return nil
}

// shared reports whether these bridges have all shards, and each its part.
func (b *fleetbed) shared(among ...int) bool {
	hosts, groups := 0, 0
	for _, n := range among {
		s := b.bridges[n].says()
		hosts, groups = hosts+s.hosts, groups+s.groups
		if s.hosts < shards.Hosts/len(among) || s.groups < shards.Groups/len(among) {
			return false
		}
	}
	return hosts == shards.Hosts && groups == shards.Groups
}

// ask says a command to a bridge, and returns its answer.
func (b *fleetbed) ask(ctx context.Context, n int, words ...string) ([]byte, error) {
	ctx, end := context.WithTimeout(ctx, fleetPatience)
	defer end()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", b.path(bridgeNames[n]+".sock"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var answer, wrong bytes.Buffer
	code, err := console.Ask(ctx, conn, console.Question{Words: words, JSON: true}, &answer, &wrong)
	if err == nil && code != 0 {
		err = errors.New(strings.TrimSpace(wrong.String()))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", bridgeNames[n], strings.Join(words, " "), err)
	}
	return answer.Bytes(), nil
}

// placeHosts gives each host a MAC address of a shard of another bridge's: the kernel's own might all be one bridge's.
func (b *fleetbed) placeHosts(ctx context.Context) error {
	answer, err := b.ask(ctx, 0, "show", "shards")
	if err != nil {
		return err
	}
	var list struct{ Shards []struct{ Owner string } }
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("%s: show shards: %w", bridgeNames[0], err)
	}
	if n := len(list.Shards); n != shards.Hosts {
		return fmt.Errorf("%s: show shards has %d shards", bridgeNames[0], n)
	}
	for i, h := range b.hosts {
		mac := frame.MAC{2, 0, 0, 0, byte(i), 0}
		for list.Shards[shards.OfHost(mac)].Owner != bridgeNames[i] {
			if mac[5]++; mac[5] == 0 {
				return fmt.Errorf("%s has no shard that suits a host", bridgeNames[i])
			}
		}
		if err := h.Do(func() error { return setMAC(mac) }); err != nil {
			return fmt.Errorf("give %s its MAC address: %w", h.Name, err)
		}
	}
	return nil
}

// setMAC gives the host of this thread's namespace another MAC address.
func setMAC(mac frame.MAC) error {
	l, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	return netlink.LinkSetHardwareAddr(l, mac[:])
}
