// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// nodeOptions are the options of "causeway node".
type nodeOptions struct {
	socket   string
	groups   []string
	node     fabric.NodeConfig
	duration time.Duration
	asJSON   bool
}

// runNode is "causeway node".
func runNode(args []string, stdout, stderr io.Writer) int {
	o := nodeOptions{}
	fs := o.flags()
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if wrong := o.check(fs.NArg()); wrong != "" {
		return misused(fs, stderr, wrong)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

func (o *nodeOptions) flags() *flag.FlagSet {
	fs := newFlags("node", `Is an InfiniBand node on the software subnet of a running bridge, whose file has a socket. Prints a line
when it is on the subnet, and its counters when it ends: by SIGINT or SIGTERM, after -duration, when -count
messages are sent, or with the subnet.`)
	fs.StringVar(&o.socket, "fabric", "", "the subnet's Unix `SOCKET`")
	fs.StringVar((*string)(&o.node.Role), "role", "", "its `ROLE`: echo answers every message, publish sends numbered ones to\nits groups, listen checks what comes")
	fs.StringVar(&o.node.Name, "name", "", "its `NAME` on the subnet")
	fs.Func("guid", "its port `GUID`, such as 0x0002c90300000007", o.setGUID)
	fs.Func("group", "a multicast group it joins: an `IP` address, as rdma_cm maps it, or an MGID. May be\ngiven several times", func(s string) error {
		o.groups = append(o.groups, s)
		return nil
	})
	fs.IntVar(&o.node.RatePPS, "rate", 10, "publish: `N` messages a second to each group")
	fs.IntVar(&o.node.Size, "size", 64, "publish: `BYTES` of a message")
	fs.Uint64Var(&o.node.Count, "count", 0, "publish: stop after `N` messages to each group; 0: never")
	fs.DurationVar(&o.duration, "duration", 0, "stop after that `TIME`, such as 30s; 0: never")
	fs.BoolVar(&o.asJSON, "json", false, "print JSON, a line each")
	return fs
}

func (o *nodeOptions) setGUID(s string) error {
	n, err := strconv.ParseUint(strings.NewReplacer("0x", "", ":", "").Replace(s), 16, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a port GUID; write it like 0x0002c90300000007", s)
	}
	o.node.GUID = ib.GUID(n)
	return nil
}

// check returns an error in the arguments; "" for none.
func (o *nodeOptions) check(arguments int) string {
	roles := []fabric.Role{fabric.RoleEcho, fabric.RolePublish, fabric.RoleListen}
	switch {
	case arguments > 0:
		return "node takes no arguments"
	case o.socket == "":
		return "name the subnet's socket with -fabric"
	case !slices.Contains(roles, o.node.Role):
		return fmt.Sprintf("-role %q; use echo, publish or listen", o.node.Role)
	case o.node.Name == "":
		return "name the node with -name"
	case o.node.GUID == 0:
		return "give the node a port GUID of its own with -guid"
	case o.node.Role == fabric.RolePublish && len(o.groups) == 0:
		return "a publisher needs a -group"
	case o.node.RatePPS <= 0 || o.node.Size <= 0 || o.duration < 0:
		return "-rate, -size and -duration must be positive"
	}
	return ""
}

// qkeys are the Q_Keys by the signature in an MGID: IPoIB's for IPv4 and IPv6 (RFC 4391 §4), rdma_cm's for both, and
// that of the form that carries a UDP port.
var qkeys = map[uint16]ib.QKey{
	0x401b: ib.QKeyIPoIB, 0x601b: ib.QKeyIPoIB, 0x4001: ib.QKeyRDMAUDP, 0x6001: ib.QKeyRDMAUDP, 0xa01b: ib.QKeyRDMAUDP,
}

// groupOf returns the group of an IP address, or of an MGID. pkey is the port's.
func groupOf(s string, pkey ib.PKey) (fabric.GroupConfig, error) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.IsMulticast() && ip.Is4() {
		return fabric.GroupConfig{MGID: ib.MGIDRDMACM(ip, pkey, ib.ScopeLinkLocal), QKey: ib.QKeyRDMAUDP}, nil
	}
	// IPv6 groups and MGIDs look the same, but for the signature in an MGID.
	mgid, err := ib.ParseGID(s)
	if err != nil || !mgid.IsIBMulticast() {
		return fabric.GroupConfig{}, fmt.Errorf("causeway: -group %q is neither an IP group nor an MGID; write it like 239.1.2.3", s)
	}
	if qkey, ok := qkeys[binary.BigEndian.Uint16(mgid[2:])]; ok {
		return fabric.GroupConfig{MGID: mgid, QKey: qkey}, nil
	}
	return fabric.GroupConfig{MGID: ib.MGIDRDMACM(mgid.Addr(), pkey, ib.ScopeLinkLocal), QKey: ib.QKeyRDMAUDP}, nil
}

// run attaches the node, runs it and detaches it.
func (o *nodeOptions) run(ctx context.Context, stdout io.Writer) error {
	port, err := fabric.Dial(o.socket, o.node.GUID, o.node.Name)
	if err != nil {
		return err
	}
	info := port.Info()
	for _, g := range o.groups {
		group, err := groupOf(g, info.PKeys[0])
		if err != nil {
			return errors.Join(err, port.Close())
		}
		o.node.Groups = append(o.node.Groups, group)
	}
	monitored := &monitoredPort{Port: port, gone: make(chan struct{})}
	n, err := fabric.StartNode(monitored, o.node)
	if err != nil {
		return err
	}
	if err := o.printAddress(stdout, n, info); err != nil {
		return errors.Join(err, n.Close())
	}
	gone := o.await(ctx, n, monitored)
	closing := n.Close()
	if gone {
		closing = fmt.Errorf("causeway: node %s: the subnet at %s has gone", o.node.Name, o.socket)
	}
	return errors.Join(closing, o.printStats(stdout, n.Stats()))
}

// A monitoredPort closes gone when its subnet has ended.
type monitoredPort struct {
	fabric.Port
	gone chan struct{}
	once sync.Once
}

// Recv receives from the port.
func (p *monitoredPort) Recv(packets [][]byte) (int, error) {
	n, err := p.Port.Recv(packets)
	if err != nil {
		p.once.Do(func() { close(p.gone) })
	}
	return n, err
}

// await waits for the node's end, and reports whether the subnet was the reason.
func (o *nodeOptions) await(ctx context.Context, n *fabric.Node, port *monitoredPort) (gone bool) {
	if o.duration > 0 {
		limited, cancel := context.WithTimeout(ctx, o.duration)
		defer cancel()
		ctx = limited
	}
	due := o.node.Count * uint64(len(o.node.Groups))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-port.gone:
			return true
		case <-tick.C:
			if s := n.Stats(); o.node.Role == fabric.RolePublish && due > 0 && s.Published+s.Unsent >= due {
				return false
			}
		}
	}
}

// roleVerbs are the roles' verbs in a node's first line.
var roleVerbs = map[fabric.Role]string{fabric.RoleEcho: "echoes", fabric.RolePublish: "publishes", fabric.RoleListen: "listens"}

// printAddress prints the node's address on the subnet. A RoCE host reaches its QPN at the IP address that the bridge's
// configuration gives to its GID.
func (o *nodeOptions) printAddress(stdout io.Writer, n *fabric.Node, info fabric.PortInfo) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(map[string]any{
			"name": info.Name, "role": o.node.Role, "gid": info.GID.String(), "lid": info.LID, "qpn": n.QP().QPN(),
		})
	}
	_, err := fmt.Fprintf(stdout, "%s: gid=%v lid=%v qpn=%v: %s\n", info.Name, info.GID, info.LID, n.QP().QPN(), roleVerbs[o.node.Role])
	return err
}

// printStats prints the node's counters.
func (o *nodeOptions) printStats(stdout io.Writer, s fabric.NodeStats) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(map[string]uint64{
			"received": s.Received, "echoed": s.Echoed, "published": s.Published, "unsent": s.Unsent,
			"stamped": s.Stamped, "damaged": s.Damaged, "missing": s.Missing, "late": s.Late,
		})
	}
	counts := map[fabric.Role]string{
		fabric.RoleEcho:    fmt.Sprintf("%d received, %d answered, %d could not be", s.Received, s.Echoed, s.Unsent),
		fabric.RolePublish: fmt.Sprintf("%d sent, %d could not be", s.Published, s.Unsent),
		fabric.RoleListen: fmt.Sprintf("%d received, %d of them numbered: %d damaged, %d missing, %d late or twice",
			s.Received, s.Stamped, s.Damaged, s.Missing, s.Late),
	}
	_, err := fmt.Fprintf(stdout, "%s: %s\n", o.node.Name, counts[o.node.Role])
	return err
}
