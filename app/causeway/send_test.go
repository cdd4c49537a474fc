// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSendUsage(t *testing.T) {
	const good = "send -on fabric:/nonexistent -to 239.1.2.3"
	for _, c := range []struct {
		name, args string
		code       int
		stderr     string
	}{
		{"nowhere", "send -to 239.1.2.3", exitUsage, "name the endpoint with -on: fabric:SOCKET, packet:INTERFACE or verbs:DEVICE"},
		{"somewhere", "send -on here:x -to 239.1.2.3", exitFailed, `-on "here:x" is not known; use fabric:SOCKET`},
		{"to nobody", "send -on fabric:/nonexistent", exitUsage, "name the destination with -to"},
		{"to nonsense", "send -on fabric:/nonexistent -to nobody", exitUsage, `-to "nobody" is no address; use a group like 239.1.2.3`},
		{"a host without a queue pair", "send -on packet:eth0 -to 10.9.0.7", exitUsage, "name its queue pair with -qpn"},
		{"a group with a queue pair", good + " -qpn 7", exitUsage, "-qpn is for one host"},
		{"a queue pair that cannot be", good + " -qpn 1", exitUsage, "from 2 to 0xfffffe"},
		{"a rate", good + " -rate fast", exitUsage, "such as 250, 2.5k or 1M"},
		{"a negative rate", good + " -rate -1", exitUsage, "such as 250, 2.5k or 1M"},
		{"too small", good + " -size 31", exitUsage, "-size 31; use 32 to 4096"},
		{"no burst", good + " -burst 0", exitUsage, "-burst 0; use 1"},
		{"RoCE's on the fabric", good + " -roce 1", exitUsage, "-ip and -roce are for -on packet:INTERFACE"},
		{"the fabric's on RoCE", "send -on packet:eth0 -to 239.1.2.3 -port 7", exitUsage, "is RoCE"},
		{"a form without its port", good + " -mgid port", exitUsage, "give it with -port"},
		{"a Q_Key that is controlled", good + " -qkey 0x80010000", exitUsage, "below 0x80000000"},
		{"no subnet there", good, exitFailed, "/nonexistent"},
		{"no interface there", "send -on packet:nosuch0 -to 239.1.2.3", exitFailed, "packet:nosuch0: "},
		{"no device there", "send -on verbs:nosuch_0 -to 239.1.2.3", exitFailed, "verbs: device \"nosuch_0\""},
		{"listen nowhere", "listen -group 239.1.2.3", exitUsage, "name the endpoint with -on"},
		{"listen to no group", "listen -on packet:eth0 -group 10.9.0.1", exitUsage, "write a multicast address"},
		{"half a call", "listen -on packet:eth0 -call 10.9.0.1", exitUsage, "go together"},
		{"two IPv4 addresses", "listen -on packet:eth0 -ip 10.9.0.1 -ip 10.9.0.2", exitUsage, "the host has 10.9.0.1 already"},
		{"a prefix length", "listen -on packet:eth0 -ip 10.9.0.1/24", exitUsage, "an address of the interface, such as 10.9.0.5"},
		{"a seed", good + " -seed 65536", exitUsage, "write 0 to 65535"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := try(strings.Fields(c.args)...)
			if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// A place is a network namespace, which exists as long as a process of the test is in it.
type place []string // the words that a command line must begin with to run there

func newPlace(t *testing.T) place { return newPlaceWith(t, "", "true") }

// newPlaceWith makes a place with another namespace besides, by unshare's flag, and prepares it with a command.
func newPlaceWith(t *testing.T, flag, prepare string) place {
	t.Helper()
	flags := strings.Fields("-n " + flag)
	holder := exec.Command("unshare", append(flags, "sh", "-c", prepare+" && echo there && exec sleep 600")...)
	said, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() }) // it ends by the signal
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Fatalf("unshare of util-linux: no namespace: %v", err)
	}
	return append(place{"nsenter", "-t", strconv.Itoa(holder.Process.Pid)}, flags...)
}

// do runs a command there.
func (p place) do(t *testing.T, line string) string {
	t.Helper()
	words := append(p[1:len(p):len(p)], strings.Fields(line)...)
	out, err := exec.Command(p[0], words...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// launch starts the program there.
func (p place) launch(t *testing.T, args ...string) *program {
	t.Helper()
	words := append(append(p[1:len(p):len(p)], os.Args[0]), args...)
	return start(t, exec.Command(p[0], words...))
}

// crossing is a bridge, with a veth pair to a host's namespace.
type crossing struct {
	host   place
	socket string
}

// launchCrossing starts the bridge. Each of its InfiniBand nodes may attach once, in the order of their LIDs, which the
// subnet gives in order: after those of the administrator, the echo and the bridge.
func launchCrossing(t *testing.T) crossing {
	t.Helper()
	needNamespaces(t)
	bridge, host := newPlace(t), newPlace(t)
	bridge.do(t, "ip link add dut0 mtu 4200 type veth peer name h0 mtu 4200 netns "+host[2])
	bridge.do(t, "ip link set dut0 up")
	for _, line := range []string{
		"ip addr add 10.9.0.1/24 dev h0", "ip addr add 10.9.0.5/24 dev h0", "ip addr add fd09::1/64 dev h0 nodad", "ip addr add fd09::5/64 dev h0 nodad", "ip link set h0 up",
	} {
		host.do(t, line)
	}
	up := func(p place, name string) bool { return strings.Contains(p.do(t, "ip -o link show "+name), "state UP") }
	for deadline := time.Now().Add(within); !up(host, "h0") || !up(bridge, "dut0"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the wire does not come up")
		}
	}
	var nodes strings.Builder
	for lid := 4; lid < 10; lid++ {
		fmt.Fprintf(&nodes, "[[host]]\nip = \"10.9.0.%d\"\nip6 = \"fd09::%d\"\nside = \"ib\"\ngid = \"fe80::%d\"\nlid = %d\n", 10*lid, 10*lid, 10*lid, lid)
	}
	file := bridgeIn(t, `port = "ring"`, `port = "af_packet:dut0"`, `["10.9.0.254/24"]`, `["10.9.0.254/24", "fd09::fe/64"]`,
		`allow = ["10.9.0.0/24"]`, `allow = ["10.9.0.0/24", "fd09::/64"]`, "[[group]]", nodes.String()+"[[group]]\nip = \"ff15::1:3\"\n[[group]]")
	bridge.launch(t, "run", "-c", file).awaitLine(`"msg":"ready"`)
	return crossing{host, filepath.Join(filepath.Dir(file), "fabric.sock")}
}

// guid returns the port GUID of the node with that LID.
func guid(lid int) string { return fmt.Sprintf("0x%d", 10*lid) }

// report is the last line of a listener's output.
type report struct {
	Sum struct {
		Received, Unique, Whole, Lost, Duplicates, Reordered, Corrupted, Before, Bytes uint64
		Latency                                                                        struct{ Min, P50, P99, Max float64 } `json:"latency_us"`
	}
	Streams []struct {
		From, To, Stream string
		Unique, Lost     uint64
	}
	Foreign uint64
	Met     bool
	Sent    uint64
	Unsent  uint64
}

// last parses the last line of what a program printed.
func (p *program) last() (r report) {
	p.t.Helper()
	lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || len(lines) != 2 {
		p.t.Fatalf("%v in\n%v%v", err, &p.stdout, &p.stderr)
	}
	return r
}

// qpn waits for the first line and returns the queue pair's number.
func (p *program) qpn() string {
	p.t.Helper()
	var number string
	p.await("its first line", func() bool {
		if m := regexp.MustCompile(`"qpn":(\d+)`).FindStringSubmatch(p.stdout.String()); m != nil {
			number = m[1]
		}
		return number != ""
	})
	return number
}

// TestSendToInfiniBand sends from a RoCE host to a node, by groups and to its queue pair. The first messages of each
// address may be overtaken while its proxy QP is made.
func TestSendToInfiniBand(t *testing.T) {
	x := launchCrossing(t)
	listener := launch(t, "listen", "-json", "-on", "fabric:"+x.socket, "-guid", guid(4), "-group", "239.1.2.3", "-group", "ff15::1:3",
		"-count", "400", "-expect", "400", "-duration", "30s")
	qpn := listener.qpn()
	for to, more := range map[string][]string{
		"239.1.2.3": {"-size", "4096"}, "ff15::1:3": {"-size", "33"}, "10.9.0.40": {"-qpn", qpn}, "fd09::40": {"-qpn", qpn, "-burst", "10"},
	} {
		args := append([]string{"send", "-json", "-on", "packet:h0", "-to", to, "-count", "100", "-rate", "1k"}, more...)
		sender := x.host.launch(t, args...)
		if code := sender.wait(); code != exitOK || sender.last().Sent != 100 || sender.last().Unsent != 0 {
			t.Errorf("to %s: exit code %d\n%v%v", to, code, &sender.stdout, &sender.stderr)
		}
	}
	code, r := listener.wait(), listener.last()
	if s := r.Sum; code != exitOK || !r.Met || len(r.Streams) != 4 || s.Received != 400 || s.Whole != 400 || s.Bytes != 100*(4096+33+64+64) ||
		s.Lost+s.Duplicates+s.Corrupted+s.Before+r.Foreign != 0 || s.Latency.P50 <= 0 || s.Latency.Max < s.Latency.P99 {
		t.Errorf("exit code %d\n%v%v", code, &listener.stdout, &listener.stderr)
	}
}

// TestSendToRoCE sends from nodes to a RoCE host, by groups and to its queue pair, at its first and at its second
// addresses; for the latter the host calls the nodes first.
func TestSendToRoCE(t *testing.T) {
	x := launchCrossing(t)
	for i, c := range []struct{ to, from, own string }{
		{"239.1.2.3", "10.9.0.40", ""}, {"ff15::1:3", "fd09::50", "fd09::5"}, {"caller", "10.9.0.60", "10.9.0.5"}, {"caller", "fd09::70", ""},
	} {
		listen := []string{"listen", "-json", "-on", "packet:h0", "-count", "100", "-expect", "100", "-duration", "30s"}
		send := []string{"send", "-json", "-on", "fabric:" + x.socket, "-guid", guid(4 + i), "-to", c.to, "-count", "100", "-rate", "1k"}
		if c.own != "" {
			listen = append(listen, "-ip", c.own)
		}
		var listener, sender *program
		if c.to == "caller" {
			sender = launch(t, send...)
			listener = x.host.launch(t, append(listen, "-call", c.from, "-call-qpn", sender.qpn())...)
		} else {
			listener = x.host.launch(t, append(listen, "-group", c.to)...)
			listener.qpn()
			sender = launch(t, send...)
		}
		if code := listener.wait(); code != exitOK {
			t.Errorf("%+v: the listener: exit code %d\n%v%v", c, code, &listener.stdout, &listener.stderr)
		}
		if code := sender.wait(); code != exitOK {
			t.Errorf("%+v: the sender: exit code %d\n%v%v", c, code, &sender.stdout, &sender.stderr)
		}
		r := listener.last()
		if s := r.Sum; len(r.Streams) != 1 || r.Streams[0].From != c.from || s.Whole != 100 || s.Lost+s.Duplicates+s.Reordered+s.Corrupted+s.Before != 0 {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	short := x.host.launch(t, "listen", "-on", "packet:h0", "-duration", "100ms", "-expect", "1")
	if code := short.wait(); code != exitFailed || !strings.Contains(short.stdout.String(), "1 different messages were expected, 0 were received intact") {
		t.Errorf("nothing came: exit code %d\n%v%v", code, &short.stdout, &short.stderr)
	}
	endless := x.host.launch(t, "send", "-on", "packet:h0", "-to", "239.1.2.3", "-rate", "10")
	endless.await("its first line", func() bool { return strings.Contains(endless.stdout.String(), "qpn=0x") })
	endless.end(syscall.SIGINT)
	if !strings.Contains(endless.stdout.String(), "messages of 64 bytes sent to 239.1.2.3") {
		t.Errorf("it said\n%v%v", &endless.stdout, &endless.stderr)
	}
}
