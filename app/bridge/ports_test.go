// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/dryrun"
	"causeway/lcore/frame"
)

func init() { tasks["ports"] = taskPorts }

// secondRing is the second port. No file can name two rings.
var secondRing = config.EthPort{Driver: "ring", Arg: "b"}

// twoRings is the configuration of two segments, each on a port of its own, untagged, with the same addresses.
func twoRings() (*config.Config, error) {
	text := strings.Replace(segmentsFile, "port = \"ring\"\nvlan = 200", "port = \"null\"", 1)
	cfg, err := config.Parse("bridge", []byte(text))
	if err == nil {
		cfg.More[0].Port = secondRing
	}
	return cfg, err
}

// taskPorts has hosts of the same address on two ports talk to the nodes of their partitions, and tries to cross.
func taskPorts() (string, error) {
	cfg, err := twoRings()
	if err != nil {
		return "", err
	}
	x, err := newSegmentedBy(cfg, Options{})
	if err != nil {
		return "", err
	}
	return "nothing crossed", x.run(func() error {
		return errors.Join(x.sameAddressesByPort(), x.noneCrossesPorts(), x.dryRunsByPort(), x.mirrorsByPort(), x.portsReload())
	})
}

// mirrorsByPort mirrors the second port, while both have traffic: its frames alone, with its name.
func (b *Bridge) mirrorsByPort() error {
	const enough = 8
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var saw []string
	ended := make(chan error, 1)
	go func() {
		_, err := b.Mirror(ctx, lcore.Filter{Port: 1, ByPort: true, Side: lcore.RoCESide}, 0, func(p lcore.MirroredPacket) bool {
			saw = append(saw, p.PortName)
			return len(saw) < enough
		})
		ended <- err
	}()
	for n := 2000; ; n += 2 {
		select {
		case err := <-ended:
			if err == nil && (len(saw) != enough || slices.ContainsFunc(saw, func(name string) bool { return name != secondRing.String() })) {
				err = fmt.Errorf("mirrored %q", saw)
			}
			return err
		default:
		}
		if err := errors.Join(b.exchange(0, n), b.exchange(1, n+1)); err != nil {
			return err
		}
	}
}

// nodesOf returns the node of a port's partition, and that of the other's.
func nodesOf(port int) (own, other netip.Addr) {
	if port == 1 {
		return node2IP, nodeIP
	}
	return nodeIP, node2IP
}

// exchange sends a message to a node by a port, and waits for the answer there.
func (b *Bridge) exchange(port, n int) error {
	node, _ := nodesOf(port)
	mac := b.ethernet[port].mac()
	p := message(b, node, 0x77, n)
	p.Dst = mac
	if err := b.enterBy(port, p.AppendTo(nil)); err != nil {
		return err
	}
	a, err := b.leaveBy(port, 1)
	if err == nil && (a[0].SrcIP != node || a[0].Src != mac || a[0].DestQP != 0x55 || a[0].Tag != nil) {
		err = fmt.Errorf("port %d is answered by %+v", port, a[0])
	}
	return err
}

func (b *Bridge) sameAddressesByPort() error {
	if len(b.ethernet) != 2 || b.ethernet[0].mac() == b.ethernet[1].mac() {
		return errors.New("there are not two ports")
	}
	for n := range 30 {
		if err := errors.Join(b.exchange(0, 2*n), b.exchange(1, 2*n+1)); err != nil {
			return err
		}
	}
	return b.countedByPort(30)
}

// countedByPort waits until each port has carried n messages and n answers, and has them all counted.
func (b *Bridge) countedByPort(n uint64) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		good, all := true, b.EthernetPorts()
		for _, p := range all {
			c := p.Counters
			good = good && c[lcore.RoCEToIB].Sent == n && c[lcore.IBToRoCE].Sent == n && c[lcore.RoCEToIB].Conserved() && c[lcore.IBToRoCE].Conserved()
			good = good && p.Link.Up() && p.Stats.RxPackets >= n && p.Stats.TxPackets >= n
		}
		if good && len(all) == 2 && all[1].Name == secondRing.String() && all[0].MAC != all[1].MAC {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counted %+v", all)
		}
	}
}

// noneCrossesPorts sends by each port to the node of the other's partition, and asks for it by ARP.
func (b *Bridge) noneCrossesPorts() error {
	before := b.EthernetPorts()
	for port := range 2 {
		_, other := nodesOf(port)
		p, foreign := message(b, other, 0x77, 1001), message(b, other, 0x77, 1002)
		p.Dst, foreign.Dst = b.ethernet[port].mac(), b.ethernet[1-port].mac()
		if err := errors.Join(b.enterBy(port, p.AppendTo(nil), foreign.AppendTo(nil)), b.resolves(port)); err != nil {
			return err
		}
	}
	wrong, _ := lcore.DropNamed("wrong_partition")
	foreign, _ := lcore.DropNamed("l2_notus")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		good, after := true, b.EthernetPorts()
		for i := range after {
			d, was := after[i].Counters[lcore.RoCEToIB].Drops, before[i].Counters[lcore.RoCEToIB].Drops
			good = good && d[wrong] == was[wrong]+1 && d[foreign] == was[foreign]+1
		}
		if good {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counted %+v", after)
		}
	}
}

// resolves asks for the nodes of both partitions: the bridge answers for the port's own, by the port, with its MAC address.
func (b *Bridge) resolves(port int) error {
	own, other := nodesOf(port)
	if err := b.enterBy(port, arpFor(other), arpFor(own)); err != nil {
		return err
	}
	var m [1]dpdk.Mbuf
	for deadline := time.Now().Add(time.Minute); ; {
		if b.ethernet[port].port.RingPort().FromPort(0).Dequeue(m[:]) == 0 {
			if time.Now().After(deadline) {
				return fmt.Errorf("port %d: no answer", port)
			}
			time.Sleep(time.Millisecond)
			continue
		}
		f, fault := frame.Open(m[0].Bytes())
		m[0].Free()
		if fault != "" || f.Type != frame.TypeARP {
			continue
		}
		a, _ := frame.ParseARP(f.Eth.Src(), f.Payload)
		if a.Op != frame.ARPReply || a.TPA != hostIP {
			continue
		}
		if a.SPA != own || a.SHA != b.ethernet[port].mac() {
			return fmt.Errorf("port %d: %v is at %v", port, a.SPA, a.SHA)
		}
		return nil
	}
}

// dryRunsByPort asks what would become of a packet at each port: it is the port's alone.
func (b *Bridge) dryRunsByPort() error {
	for port := range 2 {
		p := message(b, nodeIP, 0x77, 1)
		p.Dst = b.ethernet[port].mac()
		saw, err := b.DryRun(dryrun.Packet{Frame: p.AppendTo(nil), Port: uint8(port)})
		if err != nil || len(saw) == 0 || saw[0].Port != uint8(port) {
			return fmt.Errorf("port %d: %+v, %w", port, saw, err)
		}
		if last := saw[len(saw)-1]; (last.Point == lcore.Sent) != (port == 0) {
			return fmt.Errorf("port %d: %v, %v", port, last.Point, last.Drop)
		}
	}
	return nil
}

// portsReload brings a third port, takes it away with the second's only segment, and gives the second another.
func (b *Bridge) portsReload() error {
	both, err := twoRings()
	if err != nil {
		return err
	}
	third := *both
	third.More = append([]config.RoCE(nil), both.More...)
	third.More = append(third.More, both.More[0])
	third.More[1].Port, third.More[1].PKey = config.EthPort{Driver: "null"}, ib.PKey(0x8005)
	if _, err = b.Reload(context.Background(), &third); err != nil || len(b.EthernetPorts()) != 3 {
		return fmt.Errorf("a third port: %w, %+v", err, b.EthernetPorts())
	}
	tagged := *both
	tagged.More = []config.RoCE{both.More[0]}
	tagged.More[0].VLAN = segmentVLAN
	if _, err := b.Reload(context.Background(), &tagged); err != nil {
		return fmt.Errorf("the second port's segment on a VLAN: %w", err)
	}
	if err := b.readyAgain(pause); err != nil {
		return err
	}
	if err := b.exchange(0, 900); err != nil {
		return err
	}
	p, untagged := onSegment(message(b, node2IP, 0x77, 901)), message(b, node2IP, 0x77, 902)
	p.Dst, untagged.Dst = b.ethernet[1].mac(), b.ethernet[1].mac()
	if err := b.enterBy(1, untagged.AppendTo(nil), p.AppendTo(nil)); err != nil {
		return err
	}
	a, err := b.leaveBy(1, 1)
	if err == nil && (a[0].Tag == nil || a[0].Tag.VID != segmentVLAN || a[0].SrcIP != node2IP) {
		err = fmt.Errorf("on the VLAN: %+v", a)
	}
	return err
}

// arpFor is the host's request for an address.
func arpFor(ip netip.Addr) []byte {
	return frame.AppendARP(nil, frame.Link{MAC: hostMAC}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: hostMAC, SPA: hostIP, TPA: ip})
}

// TestEthernetPorts has two ring ports.
func TestEthernetPorts(t *testing.T) { logTask(t, "ports") }
