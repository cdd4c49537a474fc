// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"causeway/app/bridge"
	"causeway/app/trace"
	"causeway/config"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/dryrun"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/tables"
)

// A dryRunner can tell what it would do with a packet.
type dryRunner interface {
	DryRun(dryrun.Packet) ([]lcore.MirroredPacket, error)
	Tables() bridge.Tables
}

// explained runs a packet dry, and returns what would be done with it.
func (c *Call) explained(build func(bridge.Tables) (dryrun.Packet, error)) (Result, error) {
	b, ok := c.Env.Bridge.(dryRunner)
	if !ok {
		return Result{}, notAvailable("explain")
	}
	p, err := build(b.Tables())
	if err != nil {
		return Result{}, err
	}
	saw, err := b.DryRun(p)
	switch {
	case err != nil:
		return Result{}, err
	case len(saw) == 0:
		return Result{}, errors.New("explain: the packet was not seen; try again")
	}
	e := trace.Explain(saw, b.Tables())
	part := Part{Name: "packet", Lines: e.Dry(), Value: e, Note: "Nothing was sent or changed. Worker 0 receives it here; the card may choose another."}
	if e.To.Get("rate") != "" {
		part.Note += " The rate of the group is not applied."
	}
	if c.injecting() > 0 {
		part.Note += " Injected faults are not applied."
	}
	return table(part), nil
}

func explainFromRoCE(_ context.Context, c *Call) (Result, error) {
	return c.explained(func(t bridge.Tables) (dryrun.Packet, error) {
		f, err := c.roceFrame(t)
		return dryrun.Packet{Frame: f, Port: c.at().Port}, err
	})
}

// usualHopLimit and usualPort are those of hosts.
const (
	usualHopLimit = 64
	usualPort     = 0xc000
)

// roceFrame returns the frame that the arguments describe. What they leave open is as the host of the tables would have
// it.
func (c *Call) roceFrame(t bridge.Tables) ([]byte, error) {
	src, dst := value(c, "address", netip.Addr{}), value(c, "to", netip.Addr{})
	at := c.at()
	mac, err := frame.ParseMAC(c.macOf(at.Port))
	if err != nil {
		return nil, fmt.Errorf("explain: the Ethernet port's address: %w", err)
	}
	host, known := t.Host(at, src)
	p := roce.Packet{
		Version: 2, Dst: mac, Src: frame.MAC(host.MAC), SrcIP: src, DstIP: dst, HopLimit: usualHopLimit, SrcPort: usualPort, PKey: ib.PKeyDefault,
		SrcQP: ib.QPN(value(c, "qpn", uint64(0))), DestQP: ib.QPN(value(c, "to-qpn", uint64(0))), QKey: ib.QKeyRDMAUDP,
		Payload: make([]byte, value(c, "length", uint64(64))),
	}
	if !known {
		p.Src = frame.MAC{2, 0, 0, 0, 0, 1}
	}
	p.Src = value(c, "mac", p.Src)
	if c.Value("version") == "v1" {
		p.Version = 1
	}
	if dst.IsMulticast() {
		toGroup(&p, at, t)
	} else if !c.Has("to-qpn") {
		return nil, usagef("%v is not a group: write to-qpn QPN", dst)
	}
	p.QKey = ib.QKey(value(c, "qkey", uint64(p.QKey)))
	if at.VLAN != 0 {
		p.Tag = &frame.VLANFields{VID: at.VLAN}
	}
	return p.AppendTo(nil), nil
}

// at returns the place of the segment that the arguments choose, by default the first.
func (c *Call) at() manage.Place {
	var first config.Place
	if cfg := c.Env.config(); cfg != nil {
		first.VLAN = cfg.RoCE.VLAN
	}
	at := value(c, "vlan", first)
	for _, s := range c.Env.Bridge.Status().Segments {
		if isAt(&s, at) {
			return s.Place
		}
	}
	return manage.Place{VLAN: at.VLAN}
}

// macOf returns the MAC address of an Ethernet port.
func (c *Call) macOf(port uint8) string {
	if all := ethernetPorts(c.Env.Bridge); int(port) < len(all) {
		return all[port].MAC
	}
	first, _ := c.Env.Bridge.Ports()
	return first.MAC
}

// toGroup addresses a packet to the group that it has as its destination.
func toGroup(p *roce.Packet, at manage.Place, t bridge.Tables) {
	p.Dst, p.DestQP = frame.GroupMAC(p.DstIP), ib.QPMulticast
	if g, ok := t.Group(at, tables.GroupAddr{IP: p.DstIP}); ok {
		p.QKey = g.RoCEQKey
	}
	if p.Version == 1 {
		mgid := ib.MGIDRoCEv1(p.DstIP)
		p.Dst, p.DstIP = ib.MulticastMAC(mgid), mgid.Addr()
	}
}

func explainFromIB(_ context.Context, c *Call) (Result, error) {
	return c.explained(func(t bridge.Tables) (dryrun.Packet, error) {
		m, err := c.ibMessage(t)
		return dryrun.Packet{Message: m}, err
	})
}

// ibMessage returns the message that the arguments describe.
func (c *Call) ibMessage(t bridge.Tables) (*fabricport.Received, error) {
	node := value(c, "node", netip.Addr{})
	sgid := ib.GID(node.As16())
	n, known := t.Node(node)
	if known {
		sgid = n.GID
	} else if n, _, known = t.Source(sgid, 0); !known && node.Is4() {
		return nil, fmt.Errorf("explain: no InfiniBand node has the address %v; write its GID, or see show nodes", node)
	}
	_, infiniband := c.Env.Bridge.Ports()
	m := &fabricport.Received{
		QPN: ib.QPN(value(c, "to-qpn", uint64(0))), SrcQP: ib.QPN(value(c, "qpn", uint64(0))), SLID: ib.LID(value(c, "lid", uint64(n.LID))),
		HasGRH: !c.Has("no-grh"), Payload: make([]byte, value(c, "length", uint64(64))),
	}
	dgid, err := c.dgid(t, infiniband.GIDs)
	if err != nil || !m.HasGRH {
		return m, err
	}
	ib.PutGRH(m.GRH[:], ib.GRHFields{SGID: sgid, DGID: dgid, HopLimit: usualHopLimit,
		PayLen: ib.BTHLen + ib.DETHLen + (len(m.Payload)+3)&^3 + ib.ICRCLen})
	return m, nil
}

// dgid returns the GID that a message is for: a group's, or the bridge's own.
func (c *Call) dgid(t bridge.Tables, own []string) (ib.GID, error) {
	to := value(c, "group", netip.Addr{})
	switch {
	case c.Has("group") && c.Has("no-grh"):
		return ib.GID{}, usagef("a message to a group has a GRH: leave no-grh out")
	case c.Has("group"):
		if g, ok := t.Group(c.at(), tables.GroupAddr{IP: to}); ok {
			return g.MGID, nil
		}
		if gid := ib.GID(to.As16()); to.Is6() && gid.IsIBMulticast() {
			return gid, nil
		}
		return ib.GID{}, fmt.Errorf("explain: no group has the address %v; write its MGID, or see show groups", to)
	case !c.Has("to-qpn"):
		return ib.GID{}, usagef("write to-qpn with the number of a proxy QP, or group with an address or MGID")
	case len(own) == 0:
		return ib.GID{}, nil
	}
	return ib.ParseGID(own[0])
}

func explainHex(_ context.Context, c *Call) (Result, error) {
	text := strings.NewReplacer(":", "", " ", "").Replace(strings.Join(c.Rest(), ""))
	f, err := hex.DecodeString(text)
	if err != nil || len(f) == 0 {
		return Result{}, usagef("hex takes the bytes of a frame as hexadecimal digits: %v", err)
	}
	return c.explained(func(bridge.Tables) (dryrun.Packet, error) { return dryrun.Packet{Frame: f}, nil })
}

func explainPcap(_ context.Context, c *Call) (Result, error) {
	if c.Remote {
		return Result{}, errors.New("a file can only be read from the Unix socket: use causeway ctl on the bridge's machine")
	}
	file, n := c.Value("file"), value(c, "number", uint64(0))
	return c.explained(func(bridge.Tables) (dryrun.Packet, error) {
		f, err := frameOf(file, n)
		return dryrun.Packet{Frame: f}, err
	})
}
