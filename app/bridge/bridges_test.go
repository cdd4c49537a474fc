// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

func init() { tasks["bridges"] = taskBridges }

var dropLoopBridge = lcore.Drops()[slices.IndexFunc(lcore.Drops(), func(d lcore.Drop) bool { return d.String() == "loop_bridge" })]

var otherMAC = frame.MAC{2, 0, 0, 0, 0, 0x5e}

// otherRecord is what another bridge registers, byte by byte.
func otherRecord(at ib.PortState) ib.ServiceRecordFields {
	f := ib.ServiceRecordFields{
		ID: 0x0243617573657700, GID: at.GID, PKey: ib.PKeyDefault, Lease: 120, Name: ib.ServiceNameOf("Causeway bridge"),
		Data: [ib.ServiceDataLen]byte{0: 1, 1: 1, 9: 99},
	}
	binary.BigEndian.PutUint16(f.Data[10:], uint16(at.LID))
	copy(f.Data[16:], otherMAC[:])
	return f
}

// besides is a bridge, and a node on its subnet that says it is one.
type besides struct {
	*Bridge
	other *fabric.Node
}

// awaitBridges waits until the bridge knows so many others.
func (b *besides) awaitBridges(n int) error {
	for deadline := time.Now().Add(time.Minute); len(b.Status().Bridges) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("other bridges: %+v, want %d", b.Status().Bridges, n)
		}
	}
	return nil
}

// awaitRise waits until a counter of messages from InfiniBand has risen by some.
func (b *besides) awaitRise(what string, count func(*lcore.DirectionCounters) uint64) error {
	const some = 20
	read := func() uint64 { c := b.Counters(); return count(&c.Direction[lcore.IBToRoCE]) }
	before := read()
	for deadline := time.Now().Add(time.Minute); read() < before+some; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %d, as before; %+v", what, read(), b.Counters().Direction[lcore.IBToRoCE])
		}
	}
	return nil
}

func looped(c *lcore.DirectionCounters) uint64 { return c.Drops[dropLoopBridge] }

// crossed counts what has crossed, also when the Ethernet port is full of it.
func crossed(c *lcore.DirectionCounters) uint64 { return c.SourceBridged }

// taskBridges has a node send to a group, in whose messages the bridge sees a node's until it says that it is a bridge.
func taskBridges() (string, error) {
	subnet, err := fabric.New(fabric.Config{Nodes: []fabric.NodeConfig{
		{Name: "echo", GUID: 7, Role: fabric.RoleEcho}, // the configuration names it
		learnNode("other", 0x31, fabric.RolePublish, netip.MustParseAddr("239.1.2.3")),
	}})
	if err != nil {
		return "", err
	}
	text := strings.Replace(bridgeFile, "[policy]", "[policy]\nunknown_source = \"bridge\"", 1)
	cfg, err := config.Parse("bridge", []byte(text))
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	h, err := Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: subnet})
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	b := &besides{h, subnet.Node("other")}
	err = running(h, b.findsAnother)
	c := h.Counters()
	return fmt.Sprint(c.Direction[lcore.IBToRoCE].Drops[dropLoopBridge], " messages dropped"), errors.Join(err, subnet.Close())
}

func (b *besides) findsAnother() error {
	ctx := context.Background()
	at, err := b.other.SA().PortState()
	if err != nil {
		return err
	}
	record := otherRecord(at)
	if err := errors.Join(b.awaitBridges(0), b.awaitRise("messages of a node", crossed)); err != nil {
		return err
	}
	if _, err := b.other.SA().Offer(ctx, record); err != nil {
		return err
	}
	if err := errors.Join(b.awaitBridges(1), b.awaitRise("loop_bridge", looped)); err != nil {
		return err
	}
	if x := b.Status().Bridges[0]; len(x.GIDs) != 1 || x.GIDs[0] != at.GID || len(x.MACs) != 1 || x.MACs[0] != otherMAC || x.Instance != 99 {
		return fmt.Errorf("the other bridge: %+v", x)
	}
	return b.dropsOnEthernet()
}

// dropsOnEthernet sends a frame as the other bridge would, in the name of a node that is not known.
func (b *besides) dropsOnEthernet() error {
	p := message(b.Bridge, nodeIP, 0x77, 1)
	p.Src, p.SrcIP = otherMAC, netip.MustParseAddr("10.9.0.99")
	if err := b.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c := b.Counters()
		d := &c.Direction[lcore.RoCEToIB]
		if d.Drops[dropLoopBridge] == 1 && d.Received == d.Sent+d.Dropped() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("from Ethernet: %+v", d)
		}
	}
}

// TestBridges: what another bridge on the subnet sends is dropped, without a word of it in the configuration.
func TestBridges(t *testing.T) { logTask(t, "bridges") }
