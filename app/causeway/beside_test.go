// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twoBridges are two processes that are no fleet, on one Ethernet and one subnet, and a host.
type twoBridges struct {
	t     *testing.T
	at    [2]*network
	host  place
	dir   string
	named [2][]string // whom each has in [bridge] beside
	group [2]string
	node  [2]int // the last byte of its address
	run   [2]*program
}

func newTwoBridges(t *testing.T) *twoBridges {
	t.Helper()
	needNamespaces(t)
	x := &twoBridges{t: t, host: newPlace(t), group: [2]string{"239.1.2.3", "239.1.2.3"}, node: [2]int{7, 7},
		dir: files(t, map[string]string{"fabric.toml": fabricFile})}
	x.host.do(t, "ip link add wire mtu 4200 type bridge mcast_snooping 0")
	x.host.do(t, "ip link set wire up")
	for i := range x.at {
		x.at[i] = newNetwork(t)
		x.at[i].ip(fmt.Sprintf("link add dut mtu 4200 type veth peer name to%d mtu 4200 netns %s", i, x.host[2]))
		x.at[i].ip("link set dut up")
		x.host.do(t, fmt.Sprintf("ip link set to%d master wire up", i))
	}
	x.host.do(t, "ip addr add 10.9.0.1/24 dev wire")
	return x
}

// write writes a bridge's file. The first one has the subnet.
func (x *twoBridges) write(i int) string {
	x.t.Helper()
	port := `port = "fabric:DIR/fabric.toml"`
	if i == 1 {
		port = `port = "fabric:DIR/fabric.sock"`
	}
	beside := ""
	if x.named[i] != nil {
		beside = fmt.Sprintf("beside = [\"%s\"]\n", strings.Join(x.named[i], `", "`))
	}
	text := strings.NewReplacer(`name = "tested"`+"\n", fmt.Sprintf("name = \"b%d\"\n%s", i, beside), `port = "ring"`, `port = "af_packet:dut"`, `port = "fabric:DIR/fabric.toml"`, port,
		`10.9.0.254/24`, fmt.Sprintf("10.9.0.25%d/24", i), `"239.1.2.3"`, fmt.Sprintf("%q", x.group[i]), `"10.9.0.7"`, fmt.Sprintf(`"10.9.0.%d"`, x.node[i]),
		"LISTEN", "127.0.0.1:9432", `"fe80::7"`, "\"fe80::77\"\nlid = 40", "[metrics]", "[console]\nlisten = [\"unix:DIR/b"+fmt.Sprint(i)+".sock\"]\n[metrics]").Replace(bridgeFile)
	file := filepath.Join(x.dir, fmt.Sprintf("b%d.toml", i))
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", x.dir)), 0o600); err != nil {
		x.t.Fatal(err)
	}
	return file
}

func (x *twoBridges) launch(i int) {
	x.run[i] = start(x.t, exec.Command("ip", "netns", "exec", x.at[i].name, os.Args[0], "run", "-c", x.write(i)))
}

func (x *twoBridges) ctl(i int, command ...string) (int, string) {
	x.t.Helper()
	code, says, errs := try(append([]string{"ctl", "-s", filepath.Join(x.dir, fmt.Sprintf("b%d.sock", i))}, command...)...)
	return code, says + errs
}

func (x *twoBridges) reload(i int) {
	x.t.Helper()
	x.write(i)
	if code, says := x.ctl(i, "reload"); code != exitOK {
		x.t.Fatalf("b%d: reload: %s", i, says)
	}
}

// arrive has a node send ten messages to a group in a second, and the host receive at least some of them, and none twice.
func (x *twoBridges) arrive(what, group string, least uint64, meanwhile func()) {
	x.t.Helper()
	listener := x.host.launch(x.t, "listen", "-json", "-on", "packet:wire", "-group", group)
	listener.qpn()
	sender := launch(x.t, "send", "-json", "-on", "fabric:"+filepath.Join(x.dir, "fabric.sock"), "-guid", "0x77", "-to", group, "-count", "10", "-rate", "10")
	meanwhile()
	sender.wait()
	time.Sleep(500 * time.Millisecond) // for what would come twice
	listener.end(syscall.SIGTERM)
	if s := listener.last().Sum; s.Unique < least || s.Received != s.Unique {
		x.t.Errorf("%s: %d arrived, and %d twice, want at least %d once\n%v", what, s.Unique, s.Duplicates, least, &sender.stdout)
		for i := range x.run {
			_, drops := x.ctl(i, "show", "drops")
			x.t.Logf("b%d: %s%v", i, drops, &x.run[i].stderr)
		}
	}
}

// TestTwoBridges: of two bridges that are no fleet one carries, whichever comes, goes or is drained; each carries its own where
// each names the other, and nothing is common to both.
func TestTwoBridges(t *testing.T) {
	t.Parallel()
	x := newTwoBridges(t)
	x.launch(0)
	x.run[0].awaitLine(`"msg":"ready"`)
	x.arrive("one comes", "239.1.2.3", 10, func() {
		x.launch(1)
		x.run[1].awaitLine(`"msg":"rival_first"`)
	})
	if says := x.at[1].get("/readyz"); !strings.HasPrefix(says, "HTTP/1.0 503") || !strings.Contains(says, `bridge "b0"`) || !strings.Contains(says, `beside = ["b0"] here, and ["b1"] there`) {
		t.Errorf("/readyz: %s", says)
	}
	x.run[0].awaitLine(`"msg":"rival_yields"`)
	if says := x.at[0].get("/readyz"); !strings.HasPrefix(says, "HTTP/1.0 200") {
		t.Errorf("/readyz of the first: %s", says)
	}
	for i, want := range []string{"carries nothing while this one is there", "the bridge carries nothing: bridge"} {
		if _, says := x.ctl(i, "show", "status"); !strings.Contains(says, want) {
			t.Errorf("b%d: %s", i, says)
		}
	}

	x.arrive("the first is drained", "239.1.2.3", 1, func() {
		time.Sleep(300 * time.Millisecond)
		if code, says := x.ctl(0, "drain"); code != exitOK {
			t.Fatal(says)
		}
		x.run[1].awaitLine(`"msg":"ready"`)
	})
	if code, says := x.ctl(0, "resume"); code != exitOK {
		t.Fatal(says)
	}
	x.run[0].awaitLine(`"msg":"rival_first"`)
	x.arrive("it is back", "239.1.2.3", 10, func() {})

	x.named = [2][]string{{"b1"}, {"b0"}}
	x.group[1], x.node[1] = "239.1.2.4", 8
	x.reload(1)
	x.reload(0)
	for i := range x.run {
		x.run[i].await("ready again", func() bool { return strings.HasPrefix(x.at[i].get("/readyz"), "HTTP/1.0 200") })
	}
	x.arrive("beside, the one's", "239.1.2.3", 10, func() {})
	x.arrive("beside, the other's", "239.1.2.4", 10, func() {})
	x.group[1], x.node[1] = "239.1.2.3", 7
	x.write(1)
	if code, says := x.ctl(1, "reload", "check"); code == exitOK || !strings.Contains(says, `bridge "b0", which this one is beside, carries this, too: group 239.1.2.3, node 10.9.0.7`) {
		t.Errorf("reload check: %d %s", code, says)
	}
	if _, says := x.ctl(0, "show", "bridges"); !strings.Contains(says, "b1") || !strings.Contains(says, "beside") {
		t.Error(says)
	}
	for _, i := range []int{1, 0} { // the first has the subnet
		x.run[i].endConserved()
	}
}
