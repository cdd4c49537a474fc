// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/config"
	"causeway/lcore"
)

func init() { tasks["ports-veth"] = taskPortsVeth }

// taskPortsVeth has two hosts of one address, each at the other end of a cable of its own; both cables are untagged. The second
// is cut and mended.
func taskPortsVeth() (string, error) {
	text := strings.ReplaceAll(segmentsFile, "mtu = 4200", "mtu = 1500")
	text = strings.Replace(text, `"ring"`, `"af_packet:shared"`, 1)
	text = strings.Replace(text, "port = \"ring\"\nvlan = 200", `port = "af_packet:shared2"`, 1)
	x, err := newSegmented(strings.Replace(text, `"sleep"`, `"interrupt"`, 1), Options{Around: func(open func() error) error { return open() }})
	if err != nil {
		return "", err
	}
	return "", x.run(func() error {
		return errors.Join(x.talkByPort(1), x.cutSecond(), x.talkByPort(1001), x.reopenSecond(), x.talkByPort(2001))
	})
}

// talkByPort sends to both nodes by both cables: each is answered by its own, and idle workers wake for either.
func (b *Bridge) talkByPort(first int) error {
	before := b.EthernetPorts()
	const n = 20
	for port, name := range []string{"wire", "wire2"} {
		wire, err := rawSocket(name)
		if err != nil {
			return err
		}
		defer unix.Close(wire)
		own, other := nodesOf(port)
		for k := first; k < first+n; k++ {
			p, q := message(b, other, 0x77, k), message(b, own, 0x77, k)
			p.Dst, q.Dst = b.ethernet[port].mac(), b.ethernet[port].mac()
			for _, f := range [][]byte{p.AppendTo(nil), q.AppendTo(nil)} {
				if _, err := unix.Write(wire, f); err != nil {
					return err
				}
			}
			a, tag, err := nextRoCE(wire)
			if err != nil || a.SrcIP != own || a.DestQP != 0x55 || tag != 0 || a.Src != b.ethernet[port].mac() {
				return fmt.Errorf("%s, message %d: %+v, VLAN %d, %w", name, k, a, tag, err)
			}
			time.Sleep(5 * time.Millisecond) // long enough to fall asleep
		}
	}
	wrong, _ := lcore.DropNamed("wrong_partition")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		good, after := true, b.EthernetPorts()
		for i := range after {
			in, was := after[i].Counters[lcore.RoCEToIB], before[i].Counters[lcore.RoCEToIB]
			good = good && in.Sent-was.Sent == n && in.Drops[wrong]-was.Drops[wrong] == n && in.Conserved()
			good = good && after[i].Counters[lcore.IBToRoCE].Sent-before[i].Counters[lcore.IBToRoCE].Sent == n && after[i].Link.Up()
		}
		if good && b.Counters().Overslept < n/2 { // a packet may come at the very end of a sleep
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counted %+v", after)
		}
	}
}

// cutSecond takes the second cable's carrier away, which is that port's alone, and gives it back.
func (b *Bridge) cutSecond() error {
	for _, up := range []string{"down", "up"} {
		if out, err := exec.Command("ip", "link", "set", "wire2", up).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			all := b.EthernetPorts()
			if _, whole := b.Ethernet(); all[0].Link.Up() && all[1].Link.Up() == (up == "up") && whole == (up == "up") {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("with the second's cable %s: %+v", up, all)
			}
		}
	}
	return nil
}

// reopenSecond takes the second port's only segment away, with the port, and gives it one again: both wake idle workers.
func (b *Bridge) reopenSecond() error {
	both := b.Config()
	if _, err := b.Reload(context.Background(), withoutSecond(both)); err != nil {
		return err
	}
	if all := b.EthernetPorts(); len(all) != 1 || all[0].Name != "af_packet:shared" {
		return fmt.Errorf("left are %+v", all)
	}
	if _, err := b.Reload(context.Background(), both); err != nil {
		return err
	}
	return b.readyAgain(pause)
}

// withoutSecond is a configuration without its second segment.
func withoutSecond(both *config.Config) *config.Config {
	only := *both
	only.More = nil
	only.Hosts = slices.DeleteFunc(slices.Clone(both.Hosts), func(h config.Host) bool { return h.PKey == segmentPKey })
	only.Groups = slices.DeleteFunc(slices.Clone(both.Groups), func(g config.Group) bool { return g.PKey == segmentPKey })
	return &only
}

// TestEthernetPortsOverVeth needs root.
func TestEthernetPortsOverVeth(t *testing.T) {
	t.Parallel()
	sharedInterface(t)
	shell(t, "ip link add wire2 type veth peer name shared2 && ip link set wire2 up && ip link set shared2 up"+
		" && until ip link show wire2 | grep -q 'state UP' && ip link show shared2 | grep -q 'state UP'; do sleep .01; done")
	logTask(t, "ports-veth")
}
