// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"causeway/app/console"
	"causeway/config"
)

// TestMessages checks that wrong input is answered by one line that says what to write instead.
func TestMessages(t *testing.T) {
	dir := files(t, map[string]string{
		"good.toml":   "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n",
		"cpu.toml":    "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n[workers]\nlcores = [99]\n",
		"subnet.toml": "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:nosuch.toml\"\n",
		"far.toml":    "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:nosuch.sock\"\n",
		"hca.toml":    "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"nosuch_0:1\"\n",
	})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"check DIR/none.toml", exitFailed, "config: DIR/none.toml: there is no such file; name another, or begin with what \"causeway example\" prints\n"},
		{"run -c DIR/none.toml", exitFailed, "config: DIR/none.toml: there is no such file; "},
		{"check -here DIR/cpu.toml", exitFailed, "config: DIR/cpu.toml:7: [workers] lcores names CPU 99, which this process may not use, or this machine does not have; write some of "},
		{"run -unconfined -c DIR/cpu.toml", exitFailed, "dpdk: [workers] lcores names CPU 99, "},
		{"check -here DIR/hca.toml", exitFailed, `config: DIR/hca.toml:5: ib: port "nosuch_0:1": there is no RDMA device nosuch_0 here`},
		{"check DIR/subnet.toml", exitFailed, `config: DIR/subnet.toml:5: ib: port "fabric:DIR/nosuch.toml": there is no such file; write it, or port = "fabric:" for a subnet without nodes, or the path of another process's socket, which ends in .sock` + "\n"},
		{"run -c DIR/subnet.toml", exitFailed, `config: DIR/subnet.toml:5: ib: port "fabric:DIR/nosuch.toml": there is no such file; `},
		{"check DIR/far.toml", exitOK, ""},
		{"check -here DIR/far.toml", exitFailed, `config: DIR/far.toml:5: ib: port "fabric:DIR/nosuch.sock": no subnet is there; start the process that has this [fabric] socket`},
		{"run -c DIR/far.toml", exitRetry, `config: DIR/far.toml:5: ib: port "fabric:DIR/nosuch.sock": no subnet is there; start the process that has this [fabric] socket`},
		{"run DIR/good.toml -x", exitUsage, "causeway run: there is no flag -x; "},
		{"run DIR/good.toml", exitUsage, "causeway run: write -c before the file: -c DIR/good.toml; "},
		{"check DIR/good.toml -heer", exitUsage, "causeway check: there is no flag -heer; did you mean -here?; "},
		{"doctor DIR/good.toml -json -fixes", exitFailed, "-json and -fixes exclude each other"},
		{"check -- -here", exitFailed, "config: -here: there is no such file; "},
		{"ctl -s console.sock show status", exitFailed, "-s console.sock is neither a path nor an address and port; write ./console.sock for a file here"},
		{"node -fabric DIR/none -role echo -name a -guid 7", exitFailed, `fabric: attach to DIR/none as "a": no subnet is there; is the bridge running`},
		{"listen -on fabric:DIR/none", exitFailed, `no subnet is there; is the bridge running`},
		{"send -on packet:nosuch0 -to 239.1.2.3", exitFailed, `packet:nosuch0: there is no interface nosuch0 here; `},
	} {
		code, _, stderr := try(strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		if lines := strings.Count(stderr, "\n"); code != c.code || !strings.Contains(stderr, strings.ReplaceAll(c.want, "DIR", dir)) || lines != min(1, len(c.want)) && !strings.HasPrefix(c.args, "run") {
			t.Errorf("%s: exit code %d\n%s", c.args, code, stderr)
		}
	}
}

// TestFlagsBehindFiles checks that a flag behind a file is that flag.
func TestFlagsBehindFiles(t *testing.T) {
	file := filepath.Join(files(t, map[string]string{"a.toml": "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n"}), "a.toml")
	before, want, _ := try("diff", "-json", file, file)
	if after, got, _ := try("diff", file, file, "-json"); after != before || got != want || !strings.Contains(want, "[") {
		t.Errorf("%d %q, want %d %q", after, got, before, want)
	}
}

// TestListenErrors checks what is said of addresses where nothing can listen.
func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	here := taken.Addr().String()
	_, port, _ := net.SplitHostPort(here)
	for at, want := range map[config.Listen]string{
		{Network: "tcp4", Address: here}:             "another program listens there; write another port, or stop that program (ss -tlnp sport = :" + port + " shows it)",
		{Network: "tcp4", Address: "192.0.2.1:9432"}: `no interface of this machine has that address; write one that has ("ip address" lists them), 127.0.0.1 or 0.0.0.0`,
	} {
		full := func(section string) string {
			return fmt.Sprintf("causeway: [%s] listen %q: %s", section, at.Address, want)
		}
		if _, err := listenMetrics(at); err == nil || err.Error() != full("metrics") {
			t.Errorf("%v", err)
		}
		if _, err := console.Listen([]config.Listen{at}); err == nil || err.Error() != full("console") {
			t.Errorf("%v", err)
		}
	}
	socket := config.Listen{Network: "unix", Address: "/run/console.sock"}
	if err := console.ListenError("console", socket, errors.Join(os.ErrPermission)); !strings.Contains(err.Error(), "use sudo") {
		t.Errorf("%v", err)
	}
}

// TestConsoleForbidden checks what a user is told who may not open the console's socket.
func TestConsoleForbidden(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test becomes another user: run it as root")
	}
	dir := files(t, nil)
	socket := filepath.Join(dir, "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := launchAs(t, 65534, "ctl", "-s", socket, "show", "status")
	if code := p.wait(); code != exitFailed || p.stderr.String() != "causeway ctl: this user may not open "+socket+"; use sudo, or be the user that the bridge runs as\n" {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
}
