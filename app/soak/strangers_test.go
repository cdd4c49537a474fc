// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/app/segment"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// Others are there, as at any site, and cost no flow anything.

// strangeNode is a node that no [[host]] has. It sends to hosts' groups.
func strangeNode(r *rig) fault {
	p, i, d := r.anyPartition(), r.random.IntN(r.bridge.fabrics), r.between(200*time.Millisecond, 2*time.Second)
	if i == r.isCut {
		i = 1 - i
	}
	return fault{fmt.Sprintf("a node that nobody knows sends to groups of %v for %v", p, d), alone, nil, false, func() error {
		before, err := r.dropped("ib_to_roce", "node_unknown")
		if err != nil {
			return err
		}
		port, err := fabric.Dial(r.bridge.subnetSocket(i), 0x999, "stranger")
		if err != nil {
			return err
		}
		c := fabric.NodeConfig{Name: "stranger", GUID: 0x999, Role: fabric.RolePublish, RatePPS: 200}
		for _, group := range toRoCE {
			c.Groups = append(c.Groups, fabric.GroupConfig{MGID: p.mgidOf(group), QKey: ib.QKeyRDMAUDP})
		}
		n, err := fabric.StartNode(memberPort{port, p.pkey()}, c)
		if err != nil {
			return err
		}
		err = await(r.ctx, "a message of a node that nobody knows is dropped as node_unknown", func() bool {
			now, err := r.dropped("ib_to_roce", "node_unknown")
			return err == nil && now > before
		})
		time.Sleep(d)
		return errors.Join(err, n.Close())
	}}
}

// dropped returns a counter of the bridge's.
func (r *rig) dropped(direction, reason string) (uint64, error) {
	s, err := r.bridge.status(r.ctx)
	return s.Directions[direction].Drops[reason], err
}

// twoPorts gives a host a second port on its segment, by which its kernel answers for the first one's address, too, and says that it
// has it.
func twoPorts(r *rig) fault {
	p, d, name := r.anyPartition(), r.between(time.Second, 3*time.Second), fmt.Sprint("more", r.stream())
	h := p.hosts[r.random.IntN(permanent)]
	return fault{fmt.Sprintf("%v has a second port for %v", h, d), alone, nil, false, func() error {
		return h.Do(func() error {
			ns, err := netns.Get()
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := p.segment.AddPort(ns, name); err != nil {
				return err
			}
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, of := range []string{"all", name} { // else some distributions' kernels do not answer by it
				_ = os.WriteFile("/proc/sys/net/ipv4/conf/"+of+"/rp_filter", []byte("0"), 0)
			}
			for end := time.Now().Add(d); time.Now().Before(end) && err == nil; time.Sleep(d / 4) {
				err = claims(l, h.IP4)
			}
			return errors.Join(err, netlink.LinkDel(l))
		})
	}}
}

// claims asks for the bridge, by an interface, in the name of another one's address, as a kernel does that chooses its source itself.
func claims(l netlink.Link, ip netip.Addr) error {
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	mac := frame.MAC(l.Attrs().HardwareAddr)
	request := frame.AppendARP(nil, frame.Link{MAC: mac}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: ip, TPA: netip.MustParseAddr("10.9.0.254")})
	return unix.Sendto(s, request, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index})
}

const secondBridgeComes = "a second bridge comes and goes"

// secondBridge is another bridge, of no fleet, between the same fabrics: it finds the one that is there, and carries nothing.
// It has one segment.
func secondBridge(r *rig) fault {
	d, port := r.between(100*time.Millisecond, 2*time.Second), fmt.Sprint("second", r.stream())
	return fault{secondBridgeComes, alone, nil, false, func() error {
		ns, err := segment.NewNamespace()
		if err != nil {
			return err
		}
		defer ns.Close()
		b := r.bridge
		text := strings.NewReplacer("af_packet:"+segment.Port, "af_packet:"+port, "10.9.0.254/24", "10.9.0.253/24", "fd09::fe/64", "fd09::fd/64",
			b.topology(0), b.subnetSocket(0), b.topology(1), b.subnetSocket(1), "console.sock", "second.sock").Replace("[bridge]\nname = \"second\"\n" + b.configText(0))
		if err := errors.Join(r.segment.AddPort(ns, port), os.WriteFile(b.file("second.toml"), []byte(text), 0o600)); err != nil {
			return err
		}
		err = segment.In(ns, func() error { return r.findsTheFirst(b.file("second.toml"), d) })
		if text, _ := os.ReadFile(b.file("second.toml.log")); err != nil {
			err = fmt.Errorf("%w; the second bridge logged:\n%s", err, lastLines(string(text)))
		}
		return err
	}}
}

// findsTheFirst runs a bridge until it has found the other one, and for a while.
func (r *rig) findsTheFirst(config string, d time.Duration) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	log, err := os.Create(config + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(r.bridge.bin, "run", "-c", config)
	cmd.Stderr, cmd.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(netlink.LinkSetUp(lo), cmd.Start()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // its ProcessState says how
	runs := func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	has := func(event string, times int) bool {
		text, _ := os.ReadFile(log.Name())
		return strings.Count(string(text), event) == times
	}
	err = await(r.ctx, "the second bridge finds the first", func() bool { return has("rival_first", 1) || !runs() })
	time.Sleep(d)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	err = errors.Join(err, await(r.ctx, "the second bridge ends", func() bool { return !runs() }))
	if err == nil && (!cmd.ProcessState.Success() || !has("conserved=true", 2)) {
		err = errors.New("the second bridge has failed, or lost count of packets")
	}
	_ = cmd.Process.Kill()
	return err
}
