// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore/frame"
)

func init() { tasks["learn"] = taskLearn }

const learnRange = `[[range]]
ip = "239.2.0.0/24"
from = ["sa"]
direction = "both"
`

// Groups of the range: one that exists before the bridge, one that is made later; and one outside the range.
var (
	groupBefore = netip.MustParseAddr("239.2.0.1")
	groupLater  = netip.MustParseAddr("239.2.0.2")
	groupBeside = netip.MustParseAddr("239.3.0.1")
)

// learner is a bridge that learns groups from the test's own subnet.
type learner struct {
	*Bridge
	subnet *fabric.Fabric
}

func learnNode(name string, guid ib.GUID, role fabric.Role, ip netip.Addr) fabric.NodeConfig {
	return fabric.NodeConfig{
		Name: name, GUID: guid, Role: role, RatePPS: 500, Size: 200,
		Groups: []fabric.GroupConfig{{MGID: ib.MGIDRDMACM(ip, ib.PKeyDefault, ib.ScopeLinkLocal), QKey: ib.QKeyRDMAUDP}},
	}
}

// start adds a node to the subnet.
func (l *learner) start(c fabric.NodeConfig) (*fabric.Node, error) {
	port, err := l.subnet.Attach(fabric.PortConfig{Name: c.Name, GUID: c.GUID})
	if err != nil {
		return nil, err
	}
	return fabric.StartNode(port, c)
}

// state returns whether the bridge carries a group, the bridge's join state, and whether the subnet has the group at
// all.
func (l *learner) state(ip netip.Addr) (carried bool, join uint8, there bool) {
	mgid := ib.MGIDRDMACM(ip, ib.PKeyDefault, ib.ScopeLinkLocal)
	for _, j := range l.Status().Joined {
		carried = carried || j.IP == ip && j.MGID == mgid
	}
	for _, g := range l.subnet.SA().Groups() {
		if g.Record.MGID == mgid {
			join, there = g.Members[l.ibPort.Own().GIDs[0]], true
		}
	}
	return carried, join, there
}

// await waits until a group's state is as wanted.
func (l *learner) await(when string, ip netip.Addr, carried bool, join uint8, there bool) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c, j, th := l.state(ip)
		if c == carried && j == join && th == there {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s, group %v: carried %v, join state %d, there %v; %+v", when, ip, c, j, th, l.subnet.SA().Reports())
		}
	}
}

// taskLearn checks that a bridge on the software subnet learns the groups that nodes make there, also those from before
// it began, joins them as a non-member, and leaves them with their last member.
func taskLearn() (string, error) {
	subnet, err := fabric.New(fabric.Config{Nodes: []fabric.NodeConfig{
		{Name: "echo", GUID: 7, Role: fabric.RoleEcho}, // the configuration names it
		learnNode("before", 0x21, fabric.RoleListen, groupBefore),
	}})
	if err != nil {
		return "", err
	}
	// To bridge what new nodes send.
	text := strings.Replace(bridgeFile, "[policy]", "[policy]\nunknown_source = \"bridge\"", 1)
	cfg, err := config.Parse("bridge", []byte(text+learnRange))
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	h, err := Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: subnet})
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	l := &learner{h, subnet}
	err = running(h, func() error { return errors.Join(l.learnsBefore(), l.learnsLater(), l.passesOver()) })
	if n := subnet.SA().Subscriptions(); n != 0 {
		err = errors.Join(err, fmt.Errorf("%d subscriptions are left", n))
	}
	return fmt.Sprintf("%+v", subnet.SA().Reports()), errors.Join(err, subnet.Close())
}

// learnsBefore sends messages of a RoCE host to a group that existed before the bridge.
func (l *learner) learnsBefore() error {
	if err := l.await("at first", groupBefore, true, ib.JoinNonMember, true); err != nil {
		return err
	}
	node := l.subnet.Node("before")
	for deadline, i := time.Now().Add(time.Minute), 1; node.Stats().Stamped == 0; i++ { // until the tables have the group
		p := message(l.Bridge, groupBefore, ib.QPMulticast, i)
		p.Dst = frame.GroupMAC(groupBefore)
		if err := l.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing came to the group: %+v", l.Counters().Direction)
		}
		time.Sleep(time.Millisecond)
	}
	if err := node.Close(); err != nil {
		return err
	}
	return l.await("when its node has gone", groupBefore, false, 0, false)
}

// learnsLater has a node make a group and send messages to it, several times.
func (l *learner) learnsLater() error {
	for range 3 {
		node, err := l.start(learnNode("later", 0x22, fabric.RolePublish, groupLater))
		if err != nil {
			return err
		}
		if err := l.await("later", groupLater, true, ib.JoinNonMember, true); err != nil {
			return errors.Join(err, node.Close())
		}
		frames, err := l.leave(5)
		if err = errors.Join(err, node.Close()); err != nil {
			return err
		}
		for _, f := range frames {
			if _, verdict := stamp.Read(f.Payload); f.DstIP != groupLater || verdict != stamp.Whole {
				return fmt.Errorf("left: %+v", f)
			}
		}
		if err := l.await("when its node has gone", groupLater, false, 0, false); err != nil {
			return err
		}
		l.discard()
	}
	return nil
}

// passesOver makes groups that the bridge must not learn.
func (l *learner) passesOver() error {
	before := l.Status().Counters.GroupsLearned
	node, err := l.start(learnNode("beside", 0x23, fabric.RoleListen, groupBeside))
	if err != nil {
		return err
	}
	err = l.await("beside the range", groupBeside, false, 0, true)
	for deadline := time.Now().Add(time.Minute); l.subnet.SA().Reports().Waiting > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Join(err, node.Close(), fmt.Errorf("the bridge does not confirm: %+v", l.subnet.SA().Reports()))
		}
	}
	if n := l.Status().Counters.GroupsLearned; n != before {
		err = errors.Join(err, fmt.Errorf("%d groups learned, %d before", n, before))
	}
	return errors.Join(err, node.Close())
}

// TestLearnsOnFabric tests [[range]] with from = ["sa"] on the software subnet.
func TestLearnsOnFabric(t *testing.T) {
	logTask(t, "learn")
}
