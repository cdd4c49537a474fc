// SPDX-License-Identifier: Apache-2.0

package acm_test

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"causeway/ibside/acm"
	"causeway/ibside/ib"
)

// tool finds what a test needs.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s, of Debian's package %s", name, debian)
	}
	return path
}

// questions makes this machine's ibacm read files, and sends it queries. Its port is a fake one. Its sockets have fixed
// names under /run, so it gets a /run of its own.
const questions = `
mount -t tmpfs none /run
ip link set lo up
LD_PRELOAD=./port.so ibacm -P -A ./ibacm_addr.cfg -O ./ibacm_opts.cfg &
daemon=$!
for i in $(seq 100); do [ -S /run/ibacm-unix.sock ] && grep -q 'join successful' log && break; sleep 0.05; done
ask() { echo "== $2"; timeout 10 ib_acme -f i -s $1 -d $2 $3; }
ask 10.9.0.7 10.9.0.1 -c
ask fd09::7 fd09::1 -c
ask 10.9.0.7 10.9.0.2
ask 10.9.0.7 10.9.1.250 -c
ask 10.9.0.7 10.9.77.77 -c
kill $daemon
wait
`

// write makes a file in dir.
func write(t *testing.T, dir, name string, fill func(io.Writer) error, more string) {
	t.Helper()
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString(more)
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// askIbacm returns what ib_acme printed, and ibacm's log.
func askIbacm(t *testing.T, hosts []acm.Host) (answers, log string) {
	t.Helper()
	cc, unshare := tool(t, "cc", "build-essential"), tool(t, "unshare", "util-linux")
	tool(t, "ibacm", "ibacm")
	tool(t, "ib_acme", "ibacm")
	if os.Getuid() != 0 {
		t.Skip("needs root, to give ibacm a /run of its own")
	}
	dir := t.TempDir()
	if out, err := exec.Command(cc, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", filepath.Join(dir, "port.so"), "testdata/port.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	write(t, dir, acm.HostsFile, func(w io.Writer) error { return acm.WriteHosts(w, hosts) }, "")
	write(t, dir, acm.RoutesFile, func(w io.Writer) error { return acm.WriteRoutes(w, bridge, []acm.Port{node}, path) }, "")
	write(t, dir, acm.OptionsFile, func(w io.Writer) error { return acm.WriteOptions(w, dir, true) },
		fmt.Sprintf("log_file %s/log\nlog_level 2\nlock_file %s/lock\nsupport_ips_in_addr_cfg 1\n", dir, dir))
	write(t, dir, acm.EndpointsFile, func(w io.Writer) error {
		return acm.WriteEndpoints(w, []acm.Endpoint{{"its-name", "made_up0", 1, ib.PKeyDefault}, {"another", "made_up0", 1, 0x8001}})
	}, "10.9.0.7 made_up0 1 default\nfd09::7 made_up0 1 0xffff\n") // what ibacm reads from the interfaces of a real port
	cmd := exec.Command(unshare, "--net", "--mount", "sh", "-c", questions)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil && !strings.Contains(string(out), "return status") {
		t.Fatalf("ibacm: %v\n%s\n%s", err, out, text)
	}
	return string(out), string(text)
}

// TestIbacm makes the real ibacm read the files, and checks that it does not complain, takes every host, answers with
// the path from the file for hosts behind the bridge's GID and with one from the subnet administrator for another GID,
// and has no answer for hosts that are not in the files.
func TestIbacm(t *testing.T) {
	hosts := []acm.Host{
		{addr("10.9.0.1"), gid(bridge.GUID)}, {addr("fd09::1"), gid(bridge.GUID)},
		{addr("10.9.0.2"), gid(0x33)}, // an alias, whose path is in no file
	}
	for i := range 500 {
		a := netip.AddrFrom4([4]byte{10, 9, byte(1 + i>>8), byte(i)})
		hosts = append(hosts, acm.Host{Addr: a, GID: gid(bridge.GUID)})
	}
	answers, log := askIbacm(t, hosts)
	for _, want := range []struct{ who, lines string }{
		{"10.9.0.1", "dgid: fe80::2:c903:0:3 / sgid: fe80::7 / dlid: 3 / slid: 7 / pkey: 0xffff / sl: 2 / mtu: 5 / rate: 16 / return status 0x0"},
		{"fd09::1", "dgid: fe80::2:c903:0:3 / dlid: 3 / sl: 2 / return status 0x0"},
		{"10.9.0.2", "dgid: fe80::33 / dlid: 9 / return status 0x0"},
		{"10.9.1.250", "dlid: 3 / return status 0x0"},
		{"10.9.77.77", "return status 0xffffffff"},
	} {
		_, answer, _ := strings.Cut(answers, "== "+want.who+"\n")
		answer, _, _ = strings.Cut(answer, "== ")
		for _, line := range strings.Split(want.lines, " / ") {
			if !strings.Contains(answer, line+"\n") {
				t.Errorf("asked for %s: no line %q in\n%s", want.who, line, answer)
			}
		}
	}
	if n := strings.Count(log, "added host "); n != len(hosts) {
		t.Errorf("%d hosts were taken, want %d", n, len(hosts))
	}
	if n := strings.Count(log, "assigning its-name\n"); n != 1 || strings.Contains(log, "assigning another\n") {
		t.Errorf("%d endpoints have the node's name", n)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*ERROR.*$`).FindAllString(log, -1) {
		if !strings.Contains(line, "netlink recv socket") { // the kernel may have no RDMA
			t.Errorf("ibacm complains: %s", line)
		}
	}
}
