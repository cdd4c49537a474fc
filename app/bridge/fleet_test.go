// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func init() {
	tasks["fleet-owner"], tasks["fleet-bridge"] = taskFleetOwner, taskFleetBridge
}

// The files by which the processes of TestFleet tell each other how far they are, in a folder of their own.
const (
	fleetSocket  = "subnet.sock"
	fleetReady   = "ready-"   // a bridge is ready
	fleetDown    = "down-"    // its port has lost the subnet
	fleetResumed = "resumed-" // it has carried hundreds of messages since
	fleetStop    = "stop"
)

// TestFleet has two bridges in two processes on the subnet of a third, which is killed and started again. Hosts at each
// send to a group, which the other bridge must not take, and to a node of the subnet, which answers.
func TestFleet(t *testing.T) {
	dir := t.TempDir()
	owner := startFleet(t, dir, "fleet-owner", "OTHERS=")
	awaitFile(t, dir, fleetSocket)
	names, bridges := []string{"a", "b"}, []*fleetProcess{}
	for i, name := range names {
		bridges = append(bridges, startFleet(t, dir, "fleet-bridge", "NAME="+name, "PEER="+names[1-i]))
	}
	all := func(stage string) {
		for _, name := range names {
			awaitFile(t, dir, stage+name)
		}
	}
	all(fleetReady)
	time.Sleep(500 * time.Millisecond) // of traffic
	if err := owner.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.cmd.Wait() // it was killed
	all(fleetDown)
	owner = startFleet(t, dir, "fleet-owner", "OTHERS=+++++")
	all(fleetResumed)
	if err := os.WriteFile(filepath.Join(dir, fleetStop), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, b := range bridges {
		err := b.cmd.Wait()
		t.Logf("bridge %s: %s", names[i], b.said())
		if err != nil {
			t.Error(err)
		}
	}
	if err := owner.cmd.Wait(); err != nil {
		t.Errorf("the subnet: %v: %s", err, owner.said())
	}
}

// fleetProcess is one of them.
type fleetProcess struct {
	cmd *exec.Cmd
	out *lines
}

func (p *fleetProcess) said() string { return strings.TrimSpace(p.out.String()) }

func startFleet(t *testing.T, dir, task string, environment ...string) *fleetProcess {
	t.Helper()
	p := &fleetProcess{exec.Command(os.Args[0]), &lines{}}
	p.cmd.Env = append(append(os.Environ(), taskVariable+"="+task, "DIR="+dir), environment...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		if t.Failed() {
			t.Logf("%s %v:\n%s", task, environment, p.said())
		}
	})
	return p
}

// awaitFile waits until a process has made a file.
func awaitFile(t *testing.T, dir, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !exists(dir, name); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within a minute", name)
		}
	}
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// taskFleetOwner has a subnet with a node that answers, whose LID the others before it move, until the test ends.
func taskFleetOwner() (said string, err error) {
	dir, cfg := os.Getenv("DIR"), fabric.Config{}
	cfg.Socket = filepath.Join(dir, fleetSocket)
	for i := range len(os.Getenv("OTHERS")) {
		cfg.Nodes = append(cfg.Nodes, fabric.NodeConfig{Name: fmt.Sprint(i), GUID: ib.GUID(0x100 + i)})
	}
	cfg.Nodes = append(cfg.Nodes, fabric.NodeConfig{Name: "echo", GUID: 7, QPN: 0x77, QKey: ib.QKeyRDMAUDP, Role: fabric.RoleEcho})
	f, err := fabric.New(cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for !exists(dir, fleetStop) || len(f.Ports()) > 1+len(cfg.Nodes) {
		time.Sleep(5 * time.Millisecond)
	}
	for !f.Quiet() {
		time.Sleep(time.Millisecond)
	}
	sw, ports := f.Stats()
	if sw.In+sw.Copies != sw.Out+sw.Drops.Sum() || sw.Out != ports.Queued || ports.Queued != ports.Taken+ports.Waiting+ports.Drops.Sum() {
		return "", fmt.Errorf("the subnet's counters do not balance: %+v, %+v", sw, ports)
	}
	return fmt.Sprintf("switch drops %v", sw.Drops), nil
}

var (
	fleetGroup = netip.MustParseAddr("239.1.2.3")
	fleetPeer  = netip.MustParseAddr("10.9.0.8") // the other bridge, as the host of this one sees it
)

// fleetGUIDs are those of bridges of these names (ibside/fabricport).
var fleetGUIDs = map[string]ib.GUID{"a": 0xae63dc4c8601ec8c, "b": 0xae63df4c8601f1a5}

// fleetBridge is one of the two bridges, and its host.
type fleetBridge struct {
	*Bridge
	dir, name string
	log       lines

	sent   int
	atHost []uint64 // numbers of the node's answers
	found  int      // how often the host has looked since the other bridge is known
	strays int      // messages of the other host that came before
	downAt int      // answers when the port was first seen down; 0: it was not
}

func (x *fleetBridge) build() error {
	text := strings.Replace(bridgeFile, `name = "bridge"`, fmt.Sprintf("name = %q", x.name), 1)
	text = strings.Replace(text, `"fabric:"`, fmt.Sprintf("%q", "fabric:"+filepath.Join(x.dir, fleetSocket)), 1)
	text += fmt.Sprintf("[[host]]\nip = %q\nside = \"ib\"\ngid = %q\n", fleetPeer, ib.GIDFromGUID(fabric.PrefixLinkLocal, fleetGUIDs[os.Getenv("PEER")]))
	cfg, err := config.Parse("fleet", []byte(text))
	if err != nil {
		return fmt.Errorf("the test's own configuration: %w", err)
	}
	x.Bridge, err = Build(cfg, Options{Log: slog.New(slog.NewTextHandler(&x.log, nil)), NoHuge: true})
	return err
}

// settling is how often the host looks until it has what crossed before the other bridge was known.
const settling = 100

// take takes what has come to the host.
func (x *fleetBridge) take() error {
	if len(x.Status().Bridges) > 0 {
		x.found++
	}
	var m [1]dpdk.Mbuf
	for x.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		b := append([]byte(nil), m[0].Bytes()...)
		m[0].Free()
		if f, fault := frame.Open(b); fault != "" || f.IPv4 == nil || f.Protocol() != frame.ProtoUDP {
			continue
		}
		p, err := roce.Parse(b)
		if err != nil {
			return err
		}
		s, verdict := stamp.Read(p.Payload)
		switch {
		case verdict == stamp.Whole && p.SrcIP == fleetPeer && p.DstIP == fleetGroup && x.found < settling:
			x.strays++
		case verdict == stamp.Whole && p.SrcIP == nodeIP && p.SrcQP == 0x77 && p.DestQP == 0x55:
			x.atHost = append(x.atHost, s.Number)
		default:
			return fmt.Errorf("the host got %+v", p)
		}
	}
	return nil
}

// cross sends a message to the group and one to the node each millisecond, until the test stops it.
func (x *fleetBridge) cross() error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	said := map[string]bool{}
	for !exists(x.dir, fleetStop) {
		<-tick.C
		x.sent++
		p := message(x.Bridge, fleetGroup, ib.QPMulticast, x.sent)
		q := message(x.Bridge, nodeIP, 0x77, x.sent)
		if err := x.enter(p.AppendTo(nil), q.AppendTo(nil)); err != nil {
			return err
		}
		if err := errors.Join(x.take(), x.say(said)); err != nil {
			return err
		}
	}
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := x.take(); err != nil {
			return err
		}
	}
	return nil
}

// say makes the file of each stage that is reached.
func (x *fleetBridge) say(said map[string]bool) error {
	const enough = 300
	down := x.InfiniBandDown()
	got := len(x.atHost)
	if down != "" && x.downAt == 0 {
		x.downAt = got
	}
	for stage, reached := range map[string]bool{
		fleetReady: got > 0 && x.found > 0, fleetDown: down != "",
		fleetResumed: x.downAt > 0 && down == "" && got > x.downAt+enough && x.Status().Ready,
	} {
		if !reached || said[stage] {
			continue
		}
		said[stage] = true
		if err := os.WriteFile(filepath.Join(x.dir, stage+x.name), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// meet has the host's queue pair get its proxy QP: meanwhile later messages may overtake the first.
func (x *fleetBridge) meet() error {
	x.sent++
	p := message(x.Bridge, fleetGroup, ib.QPMulticast, x.sent)
	if err := x.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); x.Counters().Direction[lcore.RoCEToIB].Sent == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the host's first message was not sent")
		}
	}
	return nil
}

// check checks that nothing came twice or out of order, that losses are those of one outage, and that they have names.
func (x *fleetBridge) check() (string, error) {
	const around = 100 // messages without a loss, before the outage and after it
	var errs []error
	var gaps []int
	longest := uint64(0)
	for i := 1; i < len(x.atHost); i++ {
		switch step := x.atHost[i] - x.atHost[i-1]; {
		case x.atHost[i] <= x.atHost[i-1]:
			errs = append(errs, fmt.Errorf("message %d came after %d", x.atHost[i], x.atHost[i-1]))
		case step > 1:
			gaps, longest = append(gaps, i), max(longest, step-1)
		}
	}
	lost, _ := x.ibPort.Lost()
	if n := len(gaps); n == 0 || gaps[0] < around || len(x.atHost)-gaps[n-1] < around {
		errs = append(errs, fmt.Errorf("of %d messages some are missing before %v; want all of the first and the last %d", len(x.atHost), gaps, around))
	}
	if lost["link_down"] == 0 {
		errs = append(errs, fmt.Errorf("lost %v, want some as link_down", lost))
	}
	in := x.Counters().Direction[lcore.IBToRoCE]
	if in.Drops[dropLoopBridge] == 0 || in.Received != in.Sent+in.Dropped() {
		errs = append(errs, fmt.Errorf("from InfiniBand: %+v; want some as loop_bridge", in))
	}
	for _, words := range []string{"msg=ib_link_down", "msg=ib_link_up", "msg=subnet_registered"} {
		if !x.log.has(words) {
			errs = append(errs, fmt.Errorf("the log has no %s", words))
		}
	}
	return fmt.Sprintf("%d of %d answers came, the outage took %d in %d parts; %d strays, lost %v",
		len(x.atHost), x.sent, longest, len(gaps), x.strays, lost), errors.Join(errs...)
}

func taskFleetBridge() (said string, err error) {
	x := &fleetBridge{dir: os.Getenv("DIR"), name: os.Getenv("NAME")}
	if err := x.build(); err != nil {
		return "", err
	}
	err = running(x.Bridge, func() error { return errors.Join(x.meet(), x.cross()) })
	said, wrong := x.check()
	if err = errors.Join(err, wrong); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", said, err, x.log.String())
	}
	return said, nil
}
