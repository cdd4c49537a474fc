// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/app/segment"
)

// A fault is something that goes wrong around the bridge, or that an operator does. Its parameters are drawn when it is
// made, so that a seed repeats them.
type fault struct {
	name string
	on   string             // what it acts on: two on the same are not combined
	hits func(f *flow) bool // whether a flow may lose messages meanwhile; nil: none may
	anew bool               // the bridge may be another one afterwards
	do   func() error
}

func everything(*flow) bool { return true }

// faults make a fault each. Those that replace the bridge are in a list of their own, because a leak shows only in a
// bridge that lives.
var faults = []func(r *rig) fault{
	portDown, cableOut, portMAC, hostMAC, nodeGone,
	stopped, reloaded, reloadedByConsole, rejected, groupsByConsole, neverReads, garbage, scraped,
	diskFull, noDescriptors, injected,
	hostileFlood, forgedFlood, crowd, burst, requestFlood,
	poolEmpty, smSilent, smSlow, txStuck,
	strangeNode, twoPorts, secondBridge, multicastRouter,
}

// alone is a fault that is combined with no other.
const alone = "alone"

// partitionFaults are those of several partitions.
var partitionFaults = []func(r *rig) fault{crossingFlood}

var restarts = []func(r *rig) fault{killed, restarted, noMemory, deviceLost}

// between draws a time.
func (r *rig) between(from, to time.Duration) time.Duration {
	return from + time.Duration(r.random.Int64N(int64(to-from))).Round(time.Millisecond)
}

// downUp takes an interface of a switch's namespace down for a time.
func downUp(in *segment.Segment, name string, d time.Duration) error {
	return in.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetDown(l); err != nil {
			return err
		}
		time.Sleep(d)
		return netlink.LinkSetUp(l)
	})
}

func portDown(r *rig) fault {
	d, p := r.between(50*time.Millisecond, 2*time.Second), r.anyPartition()
	return fault{"the port's interface " + p.port + " is down for " + d.String(), "link", r.sharing(p), false, func() error { return downUp(r.segment, p.port, d) }}
}

func cableOut(r *rig) fault {
	d, p := r.between(50*time.Millisecond, 2*time.Second), r.anyPartition()
	return fault{"the cable of " + p.port + " is out for " + d.String(), "link", r.sharing(p), false, func() error { return downUp(p.cable, segment.Far, d) }}
}

// mac draws a MAC address.
func (r *rig) mac() []byte {
	return []byte{2, 0x50, byte(r.random.IntN(256)), byte(r.random.IntN(256)), byte(r.random.IntN(256)), byte(r.random.IntN(256))}
}

func setMAC(name string, mac []byte) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetHardwareAddr(l, mac)
}

func portMAC(r *rig) fault {
	mac, p := r.mac(), r.anyPartition()
	return fault{fmt.Sprintf("the MAC address of the port %s becomes %x", p.port, mac), "link", r.sharing(p), false, func() error {
		return r.segment.Do(func() error { return setMAC(p.port, mac) })
	}}
}

func hostMAC(r *rig) fault {
	mac, h := r.mac(), r.anyPartition().hosts[r.random.IntN(permanent)]
	return fault{fmt.Sprintf("the MAC address of %v becomes %x", h, mac), "host", func(f *flow) bool { return f.host == h.i && f.in == h.in && !f.toHosts }, false, func() error {
		return h.Do(func() error { return setMAC("eth0", mac) })
	}}
}

func nodeGone(r *rig) fault {
	i, d := r.random.IntN(len(r.nodes)), r.between(10*time.Millisecond, 2*time.Second)
	return fault{fmt.Sprintf("node %d is gone for %v", i, d), "node", func(f *flow) bool { return f.node == i }, false, func() error {
		r.nodes[i].detach()
		time.Sleep(d)
		return r.nodes[i].attach()
	}}
}

// stopped stops the process. What comes meanwhile waits in queues that hold all flows' windows.
func stopped(r *rig) fault {
	d := r.between(50*time.Millisecond, 3*time.Second)
	return fault{"the bridge is stopped for " + d.String(), "process", nil, false, func() error {
		if err := r.bridge.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(d)
		return r.bridge.cmd.Process.Signal(syscall.SIGCONT)
	}}
}

func killed(r *rig) fault {
	return fault{"the bridge is killed and started anew", "process", everything, true, func() error {
		if err := r.bridge.end(r.ctx, syscall.SIGKILL); err != nil {
			return err
		}
		return r.again()
	}}
}

func restarted(r *rig) fault {
	return fault{"the bridge is ended and started anew", "process", everything, true, func() error {
		if err := r.bridge.stop(r.ctx); err != nil {
			return err
		}
		return r.again()
	}}
}

// again starts the bridge, attaches the nodes, and waits until it is ready.
func (r *rig) again() error {
	for _, n := range r.nodes {
		n.detach() // the subnet has ended with the bridge
	}
	r.baseline, r.isCut = baseline{}, -1
	if err := r.supervised(); err != nil {
		return err
	}
	for _, n := range r.nodes {
		if err := n.attach(); err != nil {
			return err
		}
	}
	return r.ready()
}

// supervised starts the bridge as systemd would: again and again, while it cannot start because its cable is out.
func (r *rig) supervised() error {
	if err := r.bridge.start(); err != nil {
		return err
	}
	var failed error
	err := await(r.ctx, "the bridge starts", func() bool {
		if !r.bridge.running() {
			r.note("the bridge did not start: %s", lastLines(r.bridge.readLog()))
			failed = r.bridge.start()
		}
		for i := range r.bridge.fabrics {
			if _, err := os.Stat(r.bridge.subnetSocket(i)); err != nil {
				return failed != nil
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

// shaking runs faults at the same time, with the flows that they hit shaken meanwhile.
func (r *rig) shaking(all []fault) {
	ends := make(chan error, len(all))
	anew := false
	for _, x := range all {
		anew = anew || x.anew
		for _, f := range r.all() {
			if x.hits != nil && x.hits(f) {
				f.shake(!x.anew && (x.on != onFabric || f.toHosts))
			}
		}
	}
	for _, x := range all {
		go func() {
			err := x.do()
			if err != nil {
				err = fmt.Errorf("%s: %w", x.name, err)
			}
			if anew && !x.anew && err != nil { // a bridge that is not there cannot be asked
				r.note("with a bridge that is started anew: %v", err)
				err = nil
			}
			ends <- err
		}()
	}
	for range all {
		if err := <-ends; err != nil {
			r.fault("%v", err)
		}
	}
}

// round has some faults happen, and waits until everything works again.
func (r *rig) round(all ...fault) {
	name := ""
	for i, x := range all {
		if i > 0 {
			name += ", and "
		}
		name += x.name
	}
	r.note("%s", name)
	r.shaking(all)
	began, asked := time.Now(), r.answered()
	for _, f := range r.all() {
		f.probe()
	}
	r.patiently("traffic after "+name, func() string { return r.waiting(asked) })
	r.silences = append(r.silences, silence{name, time.Since(began)})
}

// waiting names a flow that is not steady, or an asker without an answer since; "": there is none.
func (r *rig) waiting(asked [][2]map[int]int) string {
	for _, f := range r.all() {
		if !f.is(steady) {
			return f.name + " does not arrive"
		}
	}
	for p, now := range r.answered() {
		for from := range now {
			for i := range permanent {
				if now[from][i] == asked[p][from][i] {
					return fmt.Sprintf("a request of %s has no answer, host %d%s", [2]string{"the host", "the node"}[from], i, r.partitions[p].of())
				}
			}
		}
	}
	return ""
}
