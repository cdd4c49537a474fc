// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	words "causeway/app/command"
)

// consoleIn adds a console to a bridge's files, and returns the configuration's and the socket.
func consoleIn(t *testing.T) (file, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "console") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "console.sock")
	return bridgeIn(t, "[log]\n", "[console]\nlisten = [\"unix:"+socket+"\"]\n[log]\n"), socket
}

// TestCtl asks a running bridge, changes it, and ends it.
func TestCtl(t *testing.T) {
	file, socket := consoleIn(t)
	p := launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	ask := func(want int, part string, line ...string) string {
		t.Helper()
		code, stdout, stderr := try(append([]string{"ctl", "-s", socket}, line...)...)
		if code != want || !strings.Contains(stdout+stderr, part) {
			t.Errorf("ctl %q: %d\n%s%s", line, code, stdout, stderr)
		}
		return stdout
	}
	ask(exitOK, "ready", "show", "status")
	ask(exitOK, "fe80::7", "sh", "nodes")
	ask(exitOK, "239.1.2.3", "show", "groups", "|", "match", "joined")
	ask(exitUsage, "did you mean hosts?", "show", "hsots")
	ask(exitFailed, "is not configured", "remove", "group", "239.9.9.9")
	ask(exitOK, "239.1.2.3", "show groups | match joined") // a quoted line
	testScripts(t, socket)
	testExplain(t, ask)
	ask(exitOK, "added", "add", "group", "239.1.2.9")
	ask(exitOK, "changed", "set", "policing", "239.1.2.9", "5k")
	ask(exitOK, "239.1.2.9", "show", "config")
	testWrite(t, file, ask)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(strings.Replace(string(text), "mtu = 4200", "mtu = 1500", 1), "[[group]]", "[[group]]\nip = \"239.1.2.9\"\n[[group]]", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := ask(exitFailed, "rejected, because 1 of 2", "reload", "check"); !strings.Contains(all, "239.1.2.9") || !strings.Contains(all, "[roce]") {
		t.Errorf("reload check lists %s", all)
	}
	ask(exitFailed, "reload: nothing was changed", "reload")
	testTold(p, ask)
	testStatus(t, ask)
	ask(exitOK, "leaves its groups", "drain")
	ask(exitOK, "it is drained: it has left its groups", "show", "status")
	ask(exitOK, "No group", "show", "groups")
	ask(exitOK, "again", "resume")
	ask(exitOK, "239.1.2.3", "show", "groups")
	ask(exitOK, "leaves its groups", "halt")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d after halt\n%v", code, &p.stderr)
	}
	if p.line("console_command")["command"] == "" {
		t.Errorf("%v", p.line("console_command"))
	}
	ask(exitFailed, "there is no console", "show", "status")
}

// testTold checks that the log has the rejected reload, and that "show status" names faults that are injected.
func testTold(p *program, ask func(want int, part string, words ...string) string) {
	p.t.Helper()
	if x := p.line("reload_rejected"); !strings.Contains(x["error"].(string), "mtu: 4200 -> 1500: needs a restart") || x["user"] == "" {
		p.t.Errorf("the log has %v", x)
	}
	ask(exitOK, "", "set", "injection", "roce_to_ib", "drop", "1%")
	ask(exitOK, `faults are injected, roce_to_ib: drop 1%; "clear injection" ends it`, "show", "status")
	ask(exitOK, "", "clear", "injection")
}

// testScripts runs the commands of files: all, or up to the first that fails.
func testScripts(t *testing.T, socket string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "commands")
	for _, c := range []struct {
		script, stdout, stderr string
		code                   int
	}{
		{"# a remark\n\n  show version | match causeway  \nshow hosts | count\n", "causeway .*\n.*count  0\n$", "^$", exitOK},
		{"show hosts | count\nshow hsots\nshow hosts | count", "^ *count  0\n$", "^" + file + ":2: show hsots: .*did you mean hosts.*\n$", exitUsage},
		{"remove group 239.9.9.9\nshow hosts | count\n", "^$", "^" + file + ":1: remove group 239.9.9.9: .*is not configured.*\n$", exitFailed},
	} {
		if err := os.WriteFile(file, []byte(c.script), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := try("ctl", "-s", socket, "-f", file)
		if code != c.code || !regexp.MustCompile(c.stdout).MatchString(stdout) || !regexp.MustCompile(c.stderr).MatchString(stderr) {
			t.Errorf("%q: %d\n%q\n%q", c.script, code, stdout, stderr)
		}
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	was := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = was }()
	if code, _, stderr := try("ctl", "-s", socket); code != exitFailed || !strings.HasPrefix(stderr, "standard input:1: remove group") {
		t.Errorf("from a pipe: %d %q", code, stderr)
	}
}

// testWrite takes a change back and makes it again, prints the configuration as a file, and saves it.
func testWrite(t *testing.T, file string, ask func(want int, part string, line ...string) string) {
	t.Helper()
	ask(exitOK, "changed", "reload", "undo")
	ask(exitOK, "rate", "reload", "undo") // and once more
	copied := filepath.Join(filepath.Dir(file), "copy.toml")
	if err := os.WriteFile(copied, []byte(ask(exitOK, "239.1.2.9", "show config toml")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := try("check", copied); code != exitOK {
		t.Errorf("check of show config toml: %d %s%s", code, stdout, stderr)
	}
	ask(exitOK, "removed", "reload") // the file does not have it
	ask(exitOK, "has all of it", "write")
	ask(exitOK, "added", "add service 7190")
	ask(exitOK, "was saved", "write")
	ask(exitOK, "no difference", "reload", "check")
	ask(exitOK, "added", "add service 7191")
	if saved, err := os.ReadFile(file); err != nil || !strings.Contains(string(saved), "port = 7190") || os.WriteFile(file, append(saved, '\n'), 0o600) != nil {
		t.Errorf("%v: %s", err, saved)
	}
	ask(exitFailed, "has changed since", "write")
	ask(exitOK, "removed", "reload")
}

// testStatus reads the status as JSON.
func testStatus(t *testing.T, ask func(want int, part string, line ...string) string) {
	t.Helper()
	var status struct {
		Ready bool   `json:"ready"`
		Name  string `json:"name"`
	}
	if err := json.Unmarshal([]byte(ask(exitOK, "", "show", "status", "--json")), &status); err != nil || !status.Ready || status.Name != "tested" {
		t.Errorf("%+v %v", status, err)
	}
}

// testExplain asks what the bridge would do with packets of both sides, from each source of packets, and checks that it
// did nothing.
func testExplain(t *testing.T, ask func(want int, part string, line ...string) string) {
	t.Helper()
	const counted = "show status | match _to_"
	before := ask(exitOK, "roce_to_ib", counted)
	ask(exitOK, "waits for a proxy QP", "explain from roce 10.9.0.1 qpn 0x11 to 10.9.0.7 to-qpn 0x22")
	ask(exitOK, "DROPPED acl", "explain from roce 10.8.0.1 qpn 0x11 to 239.1.2.3")
	ask(exitOK, "DROPPED qkey", "explain from roce 10.9.0.1 qpn 0x11 to 239.1.2.3 qkey 1")
	ask(exitOK, "added", "add group 239.1.2.8 mgid ipoib") // has another Q_Key, which a packet has by itself
	for deadline := time.Now().Add(within); !strings.Contains(ask(exitOK, "", "show groups"), "239.1.2.8"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the group is not joined")
		}
	}
	ask(exitOK, "waits for a proxy QP", "explain from roce 10.9.0.1 qpn 0x11 to 239.1.2.8")
	ask(exitOK, "removed", "remove group 239.1.2.8")
	ask(exitOK, "DROPPED mc_unknown", "explain from roce 10.9.0.1 qpn 0x11 to 239.9.9.9 version v2 length 0")
	ask(exitOK, "sent as  port Ethernet", "explain from ib 10.9.0.7 qpn 0x22 group 239.1.2.3")
	ask(exitOK, "DROPPED proxy_qp_unknown", "explain from ib 10.9.0.7 qpn 0x22 to-qpn 0x700 no-grh")
	ask(exitFailed, "no InfiniBand node has the address", "explain from ib 10.9.0.99 qpn 0x22 to-qpn 0x700")
	ask(exitUsage, "write to-qpn", "explain from roce 10.9.0.1 qpn 0x11 to 10.9.0.7")
	ask(exitOK, "DROPPED l2_notus", "explain hex 02:00:00:00:00:02 020000000001 0800 4500")
	ask(exitUsage, "hexadecimal digits", "explain hex zz")
	frame, err := hex.DecodeString(strings.Repeat("ff", 6) + "020000000001" + "88cc" + "0000")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.pcap")
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	info := gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}
	if err := errors.Join(w.WriteFileHeader(65536, layers.LinkTypeEthernet), w.WritePacket(info, frame), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	ask(exitOK, "DROPPED l2_other", "explain", "pcap", file, "1")
	ask(exitFailed, "it has 1 packets", "explain", "pcap", file, "2")
	ask(exitFailed, "neither pcap nor pcapng", "explain", "pcap", "/etc/passwd", "1")
	if after := ask(exitOK, "roce_to_ib", counted); after != before {
		t.Errorf("something was counted:\n%s\nbefore\n%s", after, before)
	}
}

// TestSession runs a session with a bridge that ends during it.
func TestSession(t *testing.T) {
	file, socket := consoleIn(t)
	p := launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show version | match causeway\nwatch 0.2 show rates\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }) // an error shows below
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(text), "DIRECTION") < 3 || !strings.HasSuffix(string(text), "The bridge has ended.\r\n") {
		t.Errorf("%v: %s", err, text)
	}
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
}

// TestCtlAlone checks that ctl without a bridge says in one line what is wrong.
func TestCtlAlone(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-s", "/nonexistent/x.sock", "show", "status"}, exitFailed, "there is no console at"},
		{[]string{"-s", "127.0.0.1:1", "show", "status"}, exitFailed, "no answer at"},
		{[]string{"-s", "127.0.0.1", "show", "status"}, exitFailed, "-s 127.0.0.1 is neither a path nor an address and port"},
		{[]string{"-s", "/nonexistent/x.sock", "help", "frobnicate"}, exitFailed, "there is no console at"},
		{[]string{"-x"}, exitUsage, "usage: causeway ctl"},
		{[]string{"-f", "x", "show", "status"}, exitUsage, "give a command, or -f and a file"},
		{[]string{"-f", "/nonexistent/x"}, exitFailed, "causeway ctl: -f /nonexistent/x: no such file or directory; name a file with a command on each line"},
	} {
		code, _, stderr := try(append([]string{"ctl"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %d %q", c.args, code, stderr)
		}
	}
	if code, stdout, _ := try("ctl", "-s", "/nonexistent/x.sock", "help", "show", "hosts"); code != exitOK || !strings.HasPrefix(stdout, "show hosts [PREFIX]") {
		t.Errorf("help without a bridge: %d %q", code, stdout)
	}
	for question, want := range map[string]bool{"top": true, "watch 1 show rates": true, "trace count 1": true, "show rates": false, "frobnicate": false} {
		v, err := words.Standard.Parse(question)
		if got := err == nil && v.UntilEnded(); got != want {
			t.Errorf("%q goes on: %t, want %t", question, got, want)
		}
	}
	code, stdout, _ := try("completion", "bash")
	for _, c := range commands() {
		if code != exitOK || !strings.Contains(stdout, `" `+c.name+`") next=`) {
			t.Errorf("completion: %d, no %s", code, c.name)
		}
	}
}
