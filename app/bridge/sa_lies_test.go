// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/tables"
)

// A lie is what a subnet administrator says of the path to one node that has moved, and what ends it.
type lie struct {
	name  string
	lid   func(a *administered) ib.LID // 0: there is no path
	taken bool                         // the bridge sends there
	inUse bool                         // it is the other node's, whose answers have no GRH
	// truth is called when the administrator tells the truth again; nil: the bridge asks by itself.
	truth func(a *administered) error
	// within is how long the node may not be reached after that, where the lie has lasted for a time.
	within func(lasted time.Duration) time.Duration
}

// nobodys is a LID that no port has, shortly is for what has a cause, asLong for what the bridge asks again by itself:
// then a lie outlasts its cause by no more than as long as that lasted, and a second.
const nobodys = ib.LID(0x3000)

func shortly(time.Duration) time.Duration       { return time.Second }
func asLong(lasted time.Duration) time.Duration { return lasted + 1500*time.Millisecond }

// elsewhere is the LID of a port that is neither node's.
func elsewhere(a *administered) ib.LID { return a.subnet.SA().HCA().Info().LID }

func always(lid ib.LID) func(*administered) ib.LID {
	return func(*administered) ib.LID { return lid }
}

var lies = []lie{
	{"a LID that nobody has", always(nobodys), true, false, nil, asLong},
	{"a multicast LID", always(0xc055), false, false, nil, asLong},
	{"no path", always(0), false, false, nil, asLong},
	{"another's LID, and clear subnet", elsewhere, true, false, (*administered).clearSubnet, shortly},
	{"another's LID, and a trap", elsewhere, true, false, (*administered).move, shortly},
	{"a node's LID, and clear subnet", steadyLID, true, true, (*administered).clearSubnet, shortly},
}

func steadyLID(a *administered) ib.LID { return a.steady.HCA().Info().LID }

// clearSubnet is what the command does; it waits until the moving node's LID is another.
func (a *administered) clearSubnet() error {
	was := a.knows()
	if err := a.RefreshSubnet(); err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); a.knows() == was; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the node stays at LID %v", was)
		}
	}
	return nil
}

// crossingUnder is crossing while the administrator lies. A LID of two nodes names neither as the source of a message
// without GRH.
func (a *administered) crossingUnder(l *lie, done func() (bool, error)) error {
	if !l.inUse {
		return a.crossing("while the subnet administrator lies", done)
	}
	for is, err := done(); !is; is, err = done() {
		if err != nil {
			return err
		}
		for range 10 {
			if err := a.send(steadyNode, steadyNodeQPN); err != nil {
				return err
			}
		}
		a.take()
		time.Sleep(10 * time.Millisecond)
	}
	a.settle()
	unknown, _ := lcore.DropNamed("node_unknown")
	a.excused = a.sent[steadyNode] - len(a.came[steadyNode])
	if n := a.Counters().Direction[lcore.IBToRoCE].Drops[unknown]; a.excused == 0 || n != uint64(a.excused) {
		return fmt.Errorf("the node whose LID two have has lost %d answers; dropped as of unknown nodes: %d", a.excused, n)
	}
	return nil
}

func init() {
	for i := range lies {
		tasks["lie "+lies[i].name] = func() (string, error) { return taskLie(&lies[i]) }
	}
	for kind := range groupLies {
		tasks["group lie "+kind] = func() (string, error) { return taskGroupLie(kind) }
	}
}

// answerTo answers a request: with an attribute, or without one and a status.
func answerTo(p *fabric.MADPort, to ib.LID, sl ib.SL, request []byte, status uint16, put func(data []byte)) {
	m, _ := ib.AsMAD(request)
	h, _ := ib.AsSAHeader(request[ib.MADHdrLen:])
	f, b := m.Fields(), make([]byte, ib.MADLen)
	f.Status, f.Method = status, ib.MethodGetResp
	ib.PutMAD(b, f)
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{SMKey: h.SMKey(), Components: h.Components()})
	if put != nil {
		put(b[ib.MADHdrLen+ib.SAHdrLen:])
	}
	_ = p.SendMAD(to, sl, b) // as good as lost: it is asked for again
}

// lyingOf answers for the path to the node that moves, and counts its answers; all else is true.
func lyingOf(lid ib.LID, told *atomic.Int32) func(*fabric.MADPort, ib.LID, ib.SL, []byte) {
	return func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte) {
		m, _ := ib.AsMAD(mad)
		rec, _ := ib.AsPathRecord(mad[ib.MADHdrLen+ib.SAHdrLen:])
		if m.IsResponse() || m.AttrID() != ib.AttrPathRecord || rec.DGID() != ib.GIDFromGUID(fabric.PrefixLinkLocal, movingGUID) {
			p.Pass(from, sl, mad)
			return
		}
		told.Add(1)
		if lid == 0 {
			answerTo(p, from, sl, mad, ib.SAStatusNoRecords, nil)
			return
		}
		f := rec.Fields()
		f.DLID, f.SLID, f.PKey, f.MTU, f.Rate = lid, from, ib.PKeyDefault, ib.MTU4096, fabric.PortRate
		f.MTUSelector, f.RateSelector = ib.SelectExactly, ib.SelectExactly
		answerTo(p, from, sl, mad, ib.SAStatusOK, func(data []byte) { ib.PutPathRecord(data, f) })
	}
}

const (
	// lieLasts is long enough for a path that is doubted to be asked for a few times.
	lieLasts = 4 * time.Second
	// lieTaken is how long the bridge may take to believe what it is told.
	lieTaken = time.Second
)

// taskLie has the administrator lie about a node's path from when it moves: no other node loses anything, what is lost
// is lost on the subnet, and the node is reached again in time.
func taskLie(l *lie) (string, error) {
	return administer("", nobodyElse, func(a *administered) (string, error) {
		said, err := a.lied(l)
		if a.settle(); err == nil && a.missing() != a.lost() {
			err = fmt.Errorf("of %v sent, %d have not come back, and the subnet and the bridge have lost %d", a.sent, a.missing(), a.lost())
		}
		return said, err
	})
}

func (a *administered) lied(l *lie) (string, error) {
	if err := a.crossing("at first", a.reached); err != nil {
		return "", err
	}
	var told atomic.Int32
	lid, before := l.lid(a), a.knows()
	end := a.replace(lyingOf(lid, &told))
	began := time.Now()
	if err := a.move(); err != nil {
		return "", err
	}
	meter, err := slowtest.Start()
	if err != nil {
		return "", err
	}
	defer meter.Close()
	taken := time.Duration(0)
	err = a.crossingUnder(l, func() (bool, error) {
		if arrives, err := a.reached(); err != nil || arrives {
			return false, errors.Join(err, fmt.Errorf("a message to the node is answered: %t", arrives))
		}
		switch at := a.knows(); {
		case taken == 0 && (at == lid || !l.taken && told.Load() > 1):
			taken = time.Since(began)
		case at != lid && at != before:
			return false, fmt.Errorf("the bridge sends to %v", at)
		}
		return taken > 0 && time.Since(began) > lieLasts, nil
	})
	if err != nil {
		return "", err
	}
	if limit := time.Duration(meter.Worst() * float64(lieTaken)); taken > limit {
		return "", fmt.Errorf("it was told so within %v, not %v", taken, limit)
	}
	if err := end(); err != nil {
		return "", err
	}
	lasted := time.Since(began)
	began = time.Now()
	if l.truth != nil {
		if err := l.truth(a); err != nil {
			return "", err
		}
	}
	if err := a.crossing("when it tells the truth", a.reached); err != nil {
		return "", err
	}
	took, slow := time.Since(began), meter.Worst()
	said := fmt.Sprintf("believed after %v, told %d times in %v; reached %v after the truth (machine %.1f times as slow as usual)", taken.Round(time.Millisecond),
		told.Load(), lasted.Round(time.Millisecond), took.Round(time.Millisecond), slow)
	if limit := time.Duration(slow * float64(l.within(lasted))); took > limit {
		return said, fmt.Errorf("%s: later than %v", said, limit)
	}
	return said, nil
}

// TestSubnetAdministratorLies checks what a subnet administrator that tells a wrong path can do, and for how long.
func TestSubnetAdministratorLies(t *testing.T) {
	t.Parallel()
	for i := range lies {
		t.Run(lies[i].name, func(t *testing.T) {
			t.Parallel()
			logTask(t, "lie "+lies[i].name)
		})
	}
}

// groupLies change what the record of a membership says.
var groupLies = map[string]func(f *ib.MCMemberFields){
	"MLID": func(f *ib.MCMemberFields) { f.MLID = 0xc0aa },
	"MTU":  func(f *ib.MCMemberFields) { f.MTU = ib.MTU256 },
}

var liedGroup, trueGroup = netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("239.1.2.4")

func mgidOf(ip netip.Addr) ib.GID { return ib.MGIDRDMACM(ip, ib.PKeyDefault, 2) }

// listeners are a node that hears both groups.
type listeners struct {
	*administered
	heard map[ib.GID]*atomic.Int32
}

// sendGroups sends a message to each group, larger than the smallest MTU.
func (l *listeners) sendGroups() error {
	for _, ip := range []netip.Addr{liedGroup, trueGroup} {
		l.sent[ip]++
		p := message(l.Bridge, ip, ib.QPMulticast, l.sent[ip])
		p.Payload = stamp.Message(uint64(l.sent[ip]), 1000)
		if err := l.enter(p.AppendTo(nil)); err != nil {
			return err
		}
	}
	return nil
}

func (l *listeners) lostOf(ip netip.Addr) int { return l.sent[ip] - int(l.heard[mgidOf(ip)].Load()) }

// hears sends to the groups, and reports whether one of them was heard since.
func (l *listeners) hears(ip netip.Addr) (bool, error) {
	n := l.heard[mgidOf(ip)]
	was := n.Load()
	if err := l.sendGroups(); err != nil {
		return false, err
	}
	for range 50 {
		if n.Load() > was {
			return true, nil
		}
		time.Sleep(time.Millisecond)
	}
	return false, nil
}

// taskGroupLie has the administrator lie about the record of a group: messages to it are lost on the subnet, or dropped
// by name; those to another group are not; and they arrive again when the record is asked for again.
func taskGroupLie(kind string) (string, error) {
	l := &listeners{heard: map[ib.GID]*atomic.Int32{mgidOf(liedGroup): {}, mgidOf(trueGroup): {}}}
	var node *fabric.Node
	defer func() {
		if node != nil {
			node.Close()
		}
	}()
	return administer("[[group]]\nip = \"239.1.2.4\"\nmgid = \"rdmacm\"\n", func(a *administered) error {
		l.administered = a
		port, err := a.subnet.Attach(fabric.PortConfig{Name: "listening", GUID: 9})
		if err != nil {
			return err
		}
		c := fabric.NodeConfig{Name: "listening", GUID: 9, Role: fabric.RoleListen, OnMessage: func(_ *fabric.Node, r *fabric.Received) {
			if n := l.heard[r.MGID()]; n != nil {
				n.Add(1)
			}
		}}
		for mgid := range l.heard {
			c.Groups = append(c.Groups, fabric.GroupConfig{MGID: mgid, QKey: ib.QKeyRDMAUDP})
		}
		node, err = fabric.StartNode(port, c)
		return err
	}, func(*administered) (string, error) { return l.liedAbout(kind) })
}

func (l *listeners) liedAbout(kind string) (string, error) {
	both := func() (bool, error) {
		one, err := l.hears(liedGroup)
		return one && l.lostOf(trueGroup) == 0, err
	}
	if err := l.crossing("at first", both); err != nil {
		return "", err
	}
	right, _ := l.Tables().Group(manage.Place{}, tables.GroupAddr{IP: liedGroup})
	end := l.replace(func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte) {
		m, _ := ib.AsMAD(mad)
		rec, _ := ib.AsMCMemberRecord(mad[ib.MADHdrLen+ib.SAHdrLen:])
		if m.Method() != ib.MethodSet || m.AttrID() != ib.AttrMCMemberRecord || rec.MGID() != mgidOf(liedGroup) {
			p.Pass(from, sl, mad)
			return
		}
		f := rec.Fields()
		f.MLID, f.MTU, f.Rate, f.HopLimit, f.SL = right.MLID, ib.MTU4096, fabric.PortRate, right.HopLimit, right.SL
		groupLies[kind](&f)
		answerTo(p, from, sl, mad, ib.SAStatusOK, func(data []byte) { ib.PutMCMemberRecord(data, f) })
	})
	if err := l.RefreshSubnet(); err != nil {
		return "", err
	}
	unheard := 0
	err := l.crossing("while the subnet administrator lies", func() (bool, error) {
		heard, err := l.hears(liedGroup)
		if unheard++; heard {
			unheard = 0
		}
		return unheard > 10, err
	})
	if err != nil {
		return "", err
	}
	if err := end(); err != nil {
		return "", err
	}
	meter, err := slowtest.Start()
	if err != nil {
		return "", err
	}
	defer meter.Close()
	began := time.Now()
	if err := l.RefreshSubnet(); err != nil {
		return "", err
	}
	if err := l.crossing("when it tells the truth", both); err != nil {
		return "", err
	}
	return l.sayGroups(kind, time.Since(began), meter.Worst())
}

// sayGroups checks what the lie has cost, and what it says.
func (l *listeners) sayGroups(kind string, took time.Duration, slow float64) (string, error) {
	sw, _ := l.subnet.Stats()
	exceeded, _ := lcore.DropNamed("mtu_exceeded")
	where := map[string]uint64{
		"MLID": sw.Drops[fabric.DropNoRoute], "MTU": l.Counters().Direction[lcore.RoCEToIB].Drops[exceeded],
	}
	said := fmt.Sprintf("%s: %d of %d messages lost; heard %v after the truth (machine %.1f times as slow as usual)", kind, l.lostOf(liedGroup), l.sent[liedGroup],
		took.Round(time.Millisecond), slow)
	if n := l.lostOf(liedGroup); n == 0 || uint64(n) != where[kind] || l.lostOf(trueGroup) != 0 {
		return said, fmt.Errorf("%s; counted %v, and the other group has lost %d", said, where, l.lostOf(trueGroup))
	}
	if limit := time.Duration(slow * float64(shortly(0))); took > limit {
		return said, fmt.Errorf("%s: later than %v", said, limit)
	}
	return said, nil
}

// TestSubnetAdministratorLiesOfGroups checks the same of the MLID and the MTU of a group.
func TestSubnetAdministratorLiesOfGroups(t *testing.T) {
	t.Parallel()
	for kind := range groupLies {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			text, err := task(t, "group lie "+kind)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(strings.TrimSpace(text))
		})
	}
}
