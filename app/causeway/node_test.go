// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"causeway/ibside/ib"
)

func TestNodeUsage(t *testing.T) {
	const good = "node -fabric /nonexistent -role echo -name x -guid 7"
	for _, c := range []struct {
		name, args string
		code       int
		stderr     string
	}{
		{"no socket", "node -role echo -name x -guid 7", exitUsage, "name the subnet's socket with -fabric"},
		{"no role", "node -fabric /nonexistent -name x -guid 7", exitUsage, `-role ""; use echo, publish or listen`},
		{"an unknown role", "node -fabric /nonexistent -role eccho -name x -guid 7", exitUsage, `-role "eccho"`},
		{"no name", "node -fabric /nonexistent -role echo -guid 7", exitUsage, "-name"},
		{"no GUID", "node -fabric /nonexistent -role echo -name x", exitUsage, "-guid"},
		{"a bad GUID", "node -guid seven", exitUsage, "write it like 0x0002c90300000007"},
		{"a publisher without a group", "node -fabric /nonexistent -role publish -name x -guid 7", exitUsage, "needs a -group"},
		{"a rate of 0", good + " -rate 0", exitUsage, "must be positive"},
		{"an argument", good + " y", exitUsage, "node takes no arguments"},
		{"no subnet there", good, exitFailed, "/nonexistent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := try(strings.Fields(c.args)...)
			if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

func TestGroupOf(t *testing.T) {
	for s, want := range map[string]string{
		"239.1.2.3":                      "ff12:4001:ffff::f01:203",
		"ff12:4001:ffff::f01:203":        "ff12:4001:ffff::f01:203",
		"ff12:401b:ffff::f01:203":        "ff12:401b:ffff::f01:203",
		"ff15:a01b:0:0:0:1267:ef01:0203": "ff15:a01b::1267:ef01:203",
		"10.9.0.1":                       "",
		"fd09::1":                        "",
		"somewhere":                      "",
	} {
		g, err := groupOf(s, 0xffff)
		if ipoib := strings.HasPrefix(want, "ff12:401b"); ipoib != (g.QKey == ib.QKeyIPoIB) {
			t.Errorf("%s: Q_Key %v", s, g.QKey)
		}
		if got := g.MGID.String(); err == nil && got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v, want %s", s, got, err, want)
		}
	}
	if g, err := groupOf("ff05::1:3", 0xffff); err != nil || !g.MGID.IsIBMulticast() || g.MGID.String() != "ff12:6001:ffff::1:3" {
		t.Errorf("an IPv6 group: %v, %v", g.MGID, err)
	}
}

// counted returns the two JSON lines of a node.
func (p *program) counted() (hello map[string]any, counts map[string]uint64) {
	p.t.Helper()
	d := json.NewDecoder(strings.NewReader(p.stdout.String()))
	if err := d.Decode(&hello); err != nil {
		p.t.Fatal(err)
	}
	if err := d.Decode(&counts); err != nil {
		p.t.Fatal(err)
	}
	return hello, counts
}

// TestNodes starts a listener and a publisher on a bridge's subnet: each message arrives at the listener, and crosses
// the bridge.
func TestNodes(t *testing.T) {
	// LIDs are given in order: the administrator's, the echo's, the bridge's, the listener's, the publisher's.
	bridge, dir := launchBridge(t, "[[group]]", "[[host]]\nip = \"10.9.0.8\"\nside = \"ib\"\ngid = \"fe80::22\"\nlid = 5\n[[group]]")
	socket := filepath.Join(dir, "fabric.sock")
	args := []string{"node", "-fabric", socket, "-group", "239.1.2.3", "-json"}
	listener := launch(t, append(args, "-role", "listen", "-name", "listener", "-guid", "0x21")...)
	onSubnet := func(p *program) {
		p.await("its first line", func() bool { return strings.Contains(p.stdout.String(), "\n") })
	}
	onSubnet(listener)
	publisher := launch(t, append(args, "-role", "publish", "-name", "publisher", "-guid", "0x22", "-count", "200", "-rate", "2000", "-size", "1000")...)
	if code := publisher.wait(); code != exitOK {
		t.Fatalf("the publisher: exit code %d\n%v", code, &publisher.stderr)
	}
	if _, c := publisher.counted(); c["published"] != 200 || c["unsent"] != 0 {
		t.Errorf("published %v", c)
	}
	listener.end(syscall.SIGTERM)
	hello, c := listener.counted()
	if hello["gid"] != "fe80::21" || hello["role"] != "listen" {
		t.Errorf("hello %v", hello)
	}
	if c["received"] != 200 || c["stamped"] != 200 || c["damaged"]+c["missing"]+c["late"] != 0 {
		t.Errorf("listened to %v", c)
	}
	bridge.end(syscall.SIGTERM)
	if x := bridge.line("stopped"); x["direction"] != "ib_to_roce" || x["received"] != 200.0 || x["sent"] != 200.0 {
		t.Errorf("the bridge: %v", x)
	}
}

// TestNodeEnds checks that a node ends after its time, and with its subnet; and that a second node with the same GUID
// is rejected.
func TestNodeEnds(t *testing.T) {
	bridge, dir := launchBridge(t)
	args := []string{"node", "-fabric", filepath.Join(dir, "fabric.sock"), "-role", "echo", "-name", "late"}
	short := launch(t, append(args, "-guid", "0x31", "-duration", "100ms")...)
	if code := short.wait(); code != exitOK || !strings.Contains(short.stdout.String(), "late: 0 received, 0 answered") {
		t.Errorf("exit code %d\n%v%v", code, &short.stdout, &short.stderr)
	}
	twin := launch(t, append(args, "-guid", "7")...)
	if code := twin.wait(); code != exitFailed || strings.Count(twin.stderr.String(), "\n") != 1 {
		t.Errorf("a GUID that is taken: exit code %d\n%v%v", code, &twin.stdout, &twin.stderr)
	}
	long := launch(t, append(args, "-guid", "0x32")...)
	long.await("its first line", func() bool { return strings.Contains(long.stdout.String(), "\n") })
	if line := long.stdout.String(); !regexp.MustCompile(`^late: gid=fe80::32 lid=0x[0-9a-f]{4} qpn=0x[0-9a-f]{6}: echoes\n$`).MatchString(line) {
		t.Errorf("its first line is %q", line)
	}
	bridge.end(syscall.SIGTERM)
	if code := long.wait(); code != exitFailed || !strings.Contains(long.stderr.String(), "has gone") {
		t.Errorf("without its subnet: exit code %d\n%v%v", code, &long.stdout, &long.stderr)
	}
}
