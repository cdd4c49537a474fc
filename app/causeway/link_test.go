// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/app/segment"
	"causeway/lcore/frame"
)

// A network is a network namespace of a test's own, with a pair of interfaces: ours for the bridge, theirs for its
// peer.
type network struct {
	t    *testing.T
	name string
}

// networks counts them.
var networks atomic.Int32

func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a network namespace")
	}
	n := &network{t, fmt.Sprintf("cwtest%d-%d", os.Getpid(), networks.Add(1))}
	n.run("ip", "netns", "add", n.name)
	t.Cleanup(func() { n.run("ip", "netns", "delete", n.name) })
	n.ip("link set lo up")
	return n
}

func (n *network) run(args ...string) string {
	n.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// ip runs ip in the namespace.
func (n *network) ip(args string) {
	n.t.Helper()
	n.run(append([]string{"ip", "-n", n.name}, strings.Fields(args)...)...)
}

// wires makes the pair of interfaces, up.
func (n *network) wires() {
	n.t.Helper()
	n.ip("link add ours mtu 4200 type veth peer name theirs mtu 4200")
	n.ip("link set theirs up")
	n.ip("link set ours up")
}

// launch starts a bridge in the namespace.
func (n *network) launch(edits ...string) *program {
	n.t.Helper()
	const address = "127.0.0.1:9432" // nothing else is in the namespace
	file := bridgeIn(n.t, append(edits, "LISTEN", address)...)
	return n.start("run", "-c", file)
}

// start starts the program in the namespace.
func (n *network) start(args ...string) *program {
	n.t.Helper()
	return start(n.t, exec.Command("ip", append([]string{"netns", "exec", n.name, os.Args[0]}, args...)...))
}

// bridge starts a bridge in the namespace and waits until it is ready.
func (n *network) bridge(edits ...string) *program {
	n.t.Helper()
	p := n.launch(edits...)
	p.awaitLine(`"msg":"ready"`)
	return p
}

// get returns what the bridge answers at a path.
func (n *network) get(path string) string {
	n.t.Helper()
	request := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/9432 && printf 'GET %s HTTP/1.0\r\n\r\n' >&3 && cat <&3`, path)
	return n.run("ip", "netns", "exec", n.name, "bash", "-c", request)
}

// events returns the log's events of the link, in order, with their reasons.
func events(p *program) (all []string) {
	for _, x := range p.lines() {
		switch x["msg"] {
		case "link_up":
			all = append(all, "up")
		case "link_down":
			all = append(all, x["reason"].(string))
		}
	}
	return all
}

// A wire is the peer's end, where frames of the bridge are waited for; nil: none are.
type wire struct {
	t    *testing.T
	file *os.File
}

// listen listens there from now on.
func (n *network) listen(wanted bool) *wire {
	n.t.Helper()
	if !wanted {
		return nil
	}
	ns, err := netns.GetFromName(n.name)
	if err != nil {
		n.t.Fatal(err)
	}
	defer ns.Close()
	fd := -1
	err = segment.In(ns, func() error {
		theirs, err := net.InterfaceByName("theirs")
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: theirs.Index})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	w := &wire{n.t, os.NewFile(uintptr(fd), "theirs")}
	n.t.Cleanup(func() { w.file.Close() })
	return w
}

// hears waits for a report of the bridge's group and an announcement of its address.
func (w *wire) hears(after string) {
	if w == nil {
		return
	}
	w.t.Helper()
	reported, announced := false, false
	group, own := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("10.9.0.254")
	if err := w.file.SetReadDeadline(time.Now().Add(within)); err != nil {
		w.t.Fatal(err)
	}
	for b := make([]byte, 9000); !reported || !announced; {
		size, err := w.file.Read(b)
		if errors.Is(err, unix.ENETDOWN) { // what happened before
			continue
		}
		if err != nil {
			w.t.Fatalf("%s: %v; the group was reported: %v, the address announced: %v", after, err, reported, announced)
		}
		f, fault := frame.Open(b[:size])
		switch {
		case fault != "":
		case f.Type == frame.TypeARP:
			a, fault := frame.ParseARP(f.Eth.Src(), f.Payload)
			announced = announced || fault == "" && a.IsGratuitous() && a.SPA == own
		case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
			m, fault := frame.ParseIGMP(f.IPv4, f.Payload)
			reported = reported || fault == "" && slices.ContainsFunc(m.Records, func(r frame.GroupRecord) bool { return r.Group == group && !r.Leaves() })
		}
	}
}

// countOf counts the lines of an event.
func countOf(p *program, event string) (n int) {
	for _, x := range p.lines() {
		if x["msg"] == event {
			n++
		}
	}
	return n
}

// follows waits until the bridge says of its link what is so, everywhere.
func (n *network) follows(p *program, before int, reason string) {
	n.t.Helper()
	want, code, gauge := reason, "503", "0"
	if reason == "" {
		want, code, gauge = "up", "200", "1"
	}
	p.await("an event "+want, func() bool {
		all := events(p)
		return len(all) > before && all[len(all)-1] == want
	})
	if answer := n.get("/readyz"); !strings.HasPrefix(answer, "HTTP/1.0 "+code) {
		n.t.Errorf("%s: /readyz answers\n%s", want, answer)
	}
	if answer := n.get("/metrics"); !strings.Contains(answer, "\ncauseway_port_link_up "+gauge+"\n") || !strings.Contains(answer, "\ncauseway_ready "+gauge+"\n") {
		n.t.Errorf("%s: not %s in the metrics", want, gauge)
	}
	if answer := n.get("/status.json"); !strings.Contains(answer, fmt.Sprintf(`"link_down": %q`, reason)) {
		n.t.Errorf("%s: /status.json has\n%s", want, answer)
	}
}

// TestLink takes the carrier from a running bridge, sets its interface down, and deletes it: each is in the log,
// /readyz, the metrics and the status when it has happened, and the bridge carries on when it is over.
func TestLink(t *testing.T) {
	t.Parallel()
	for _, cores := range []string{"[0]", "[0, 1]"} { // two queues share an interface's frames
		t.Run(cores, func(t *testing.T) {
			n := newNetwork(t)
			n.wires()
			p := n.bridge(`port = "ring"`, `port = "af_packet:ours"`, "lcores = [0]", "lcores = "+cores, `idle = "sleep"`, `idle = "interrupt"`)
			if all := events(p); len(all) > 0 {
				t.Errorf("before anything happened: %v", all)
			}
			n.answersARP(p)
			for _, step := range []struct{ args, reason string }{
				{"link set theirs down", "carrier"},
				{"link set theirs up", ""},
				{"link set ours down", "admin"},
				{"link set ours up", ""},
				{"link del ours", "deleted"},
			} {
				before, wire := len(events(p)), n.listen(step.reason == "")
				n.ip(step.args)
				n.follows(p, before, step.reason)
				wire.hears(step.args)
			}
			before := len(events(p))
			n.ip("link add ours mtu 4200 type veth peer name theirs mtu 4200")
			n.ip("link set theirs up")
			wire := n.listen(true)
			n.ip("link set ours up")
			n.follows(p, before, "")
			wire.hears("after it was deleted")
			n.answersARP(p)
			n.sleptWell(p)
			p.end(syscall.SIGTERM)
			for _, x := range p.lines() {
				if x["msg"] == "stopped" && x["conserved"] != true {
					t.Errorf("%v", x)
				}
			}
		})
	}
}

// TestStartsWithoutLink starts a bridge whose interface has no carrier, or is not set up: it runs, says why it is not
// ready, and carries on when the link comes.
func TestStartsWithoutLink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cores, before, after, reason string }{
		{"no carrier", "[0]", "link set theirs down", "link set theirs up", "carrier"},
		{"down", "[0]", "link set ours down", "link set ours up", "admin"},
		{"down, two queues", "[0, 1]", "link set ours down", "link set ours up", "admin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNetwork(t)
			n.wires()
			n.ip(c.before)
			p := n.launch(`port = "ring"`, `port = "af_packet:ours"`, "lcores = [0]", "lcores = "+c.cores, `idle = "sleep"`, `idle = "auto"`)
			p.await("joined groups", func() bool { return countOf(p, "group_joined") > 0 })
			n.follows(p, 0, c.reason)
			if countOf(p, "ready") > 0 {
				t.Error("it is ready without a link")
			}
			before := len(events(p))
			n.ip(c.after)
			p.awaitLine(`"msg":"ready"`)
			n.follows(p, before, "")
			n.answersARP(p)
			n.sleptWell(p)
			p.end(syscall.SIGTERM)
			for _, x := range p.lines() {
				if x["msg"] == "stopped" && x["conserved"] != true {
					t.Errorf("%v", x)
				}
			}
		})
	}
}

// sleptWell checks that the workers sleep, and that all that comes to the port wakes them. Without wake-ups most of the answers would
// come by a sleep's 100 ms.
func (n *network) sleptWell(p *program) {
	n.t.Helper()
	for range 5 {
		n.ip("neigh flush dev theirs")
		n.answersARP(p)
	}
	metrics := n.get("/metrics")
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "causeway_worker_sleeps_total{") && strings.HasSuffix(line, " 0\n") ||
			strings.HasPrefix(line, "causeway_worker_overslept_total{") && !strings.HasSuffix(line, " 0\n") {
			n.t.Error(strings.TrimSpace(line))
		}
	}
	if !strings.Contains(metrics, "\ncauseway_worker_sleeps_total{") {
		n.t.Errorf("no metrics of sleeps:\n%s", metrics)
	}
}

// answersARP checks that frames of the peer reach the bridge, and the bridge's the peer.
func (n *network) answersARP(p *program) {
	n.t.Helper()
	n.ip("address replace 10.9.0.1/24 dev theirs")
	p.await("an answer to ARP", func() bool {
		n.run("ip", "netns", "exec", n.name, "bash", "-c", "echo >/dev/udp/10.9.0.254/9")
		return strings.Contains(n.run("ip", "-n", n.name, "neigh", "show", "10.9.0.254"), "lladdr")
	})
}

// TestInterfaceGone checks that a bridge ends when its interface is deleted and its driver cannot take another, with
// the exit code for supervisors and one line for operators; and that it starts with the same code while there is none.
func TestInterfaceGone(t *testing.T) {
	n := newNetwork(t)
	p := n.bridge(`port = "ring"`, `port = "tap:ours"`, "mtu = 4200", "mtu = 1500")
	n.ip("link del ours")
	if code := p.wait(); code != exitRetry {
		t.Errorf("exit code %d, want %d; its output:\n%v", code, exitRetry, &p.stderr)
	}
	const want = `bridge: [roce] port tap:ours: the interface ours was deleted, and its driver cannot take another in its place; ` +
		"start Causeway again when it is back\n"
	if said := p.stderr.String(); !strings.HasSuffix(said, "}\n"+want) {
		t.Errorf("it said\n%s, want at the end %s", said, want)
	}
}

// TestSecondBridge checks that a second bridge on an interface does not start, and says which process has it; one on
// another VLAN does.
func TestSecondBridge(t *testing.T) {
	n := newNetwork(t)
	n.wires()
	first := n.bridge(`port = "ring"`, `port = "af_packet:ours"`)
	run := func(edits ...string) *program {
		file := bridgeIn(t, append(edits, `port = "ring"`, `port = "af_packet:ours"`, "LISTEN", "127.0.0.1:9433")...)
		return n.start("run", "-c", file)
	}
	second := run()
	want := fmt.Sprintf("bridge: [roce] port af_packet:ours: another causeway (process %d) has it; stop that one, or name another port\n", first.cmd.Process.Pid)
	if code := second.wait(); code != exitFailed || !strings.HasSuffix(second.stderr.String(), want) {
		t.Errorf("exit code %d, it said\n%v", code, &second.stderr)
	}
	other := run("mtu = 4200", "mtu = 4200\nvlan = 7")
	other.awaitLine(`"msg":"ready"`)
	other.end(syscall.SIGTERM)
	first.end(syscall.SIGTERM)
}
