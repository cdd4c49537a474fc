// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"causeway/app/bridge"
	"causeway/dpdk"
	"causeway/lcore"
)

// bridgeFile is a bridge between a ring port, with nothing at the rings' other end, and a subnet with a socket.
const bridgeFile = `[bridge]
name = "tested"
[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "fabric:DIR/fabric.toml"
[workers]
lcores = [0]
idle = "sleep"
memory_mib = 64
mbufs = 2048
rx_descs = 256
tx_descs = 1024
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[group]]
ip = "239.1.2.3"
mgid = "rdmacm"
direction = "both"
[metrics]
listen = "LISTEN"
[log]
format = "json"
`

const fabricFile = `[fabric]
socket = "DIR/fabric.sock"
[[node]]
name = "echo"
guid = 7
role = "echo"
`

// bridgeIn writes a bridge's files and returns the configuration's.
func bridgeIn(t *testing.T, edits ...string) string {
	t.Helper()
	config := strings.NewReplacer(append(edits, "LISTEN", freeAddress(t))...).Replace(bridgeFile)
	return filepath.Join(files(t, map[string]string{"causeway.toml": config, "fabric.toml": fabricFile}), "causeway.toml")
}

// freeAddress returns an address that no socket listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// launchBridge starts a bridge and waits until it is ready.
func launchBridge(t *testing.T, edits ...string) (p *program, dir string) {
	t.Helper()
	file := bridgeIn(t, edits...)
	p = launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	return p, filepath.Dir(file)
}

// lines returns the log, each of whose lines must be a JSON object.
func (p *program) lines() []map[string]any {
	p.t.Helper()
	var out []map[string]any
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			p.t.Fatalf("a line of the log is no JSON: %q", line)
		}
		out = append(out, x)
	}
	return out
}

// line returns the last line with that message; it waits for the first, because what a program has logged is read a
// little later than what its console answers.
func (p *program) line(msg string) (found map[string]any) {
	p.t.Helper()
	p.await("a line "+msg, func() bool {
		for _, x := range p.lines() {
			if x["msg"] == msg {
				found = x
			}
		}
		return found != nil
	})
	return found
}

// TestSignals checks that both signals end a bridge properly, with two bridges running at a time.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p, _ := launchBridge(t)
			p.end(s)
			stopped, lost := 0, 0
			for _, x := range p.lines() {
				if x["msg"] == "port_losses" && x["lost_before"] == 0.0 && x["received"] == 0.0 {
					lost++
				}
				if x["msg"] == "stopped" {
					stopped++
					if x["conserved"] != true {
						t.Errorf("%v", x)
					}
				}
			}
			if stopped != 2 || lost != 2 || p.stdout.String() != "" {
				t.Errorf("the summary names %d directions; the output:\n%v%v", stopped, &p.stdout, &p.stderr)
			}
		})
	}
}

// TestFinalLosses checks that the last lines of the log have what the devices lost beside what the workers received and
// sent.
func TestFinalLosses(t *testing.T) {
	var out strings.Builder
	var c lcore.Counters
	c.Direction[lcore.IBToRoCE] = lcore.DirectionCounters{Received: 1000, Sent: 990}
	lost := [2]bridge.Losses{lcore.RoCEToIB: {BeforeUnknown: true}, lcore.IBToRoCE: {Before: bridge.Lost{"out_of_buffer": 4, "port_rcv_errors": 3}, After: bridge.Lost{"send_errors": 2}}}
	logFinal(slog.New(slog.NewTextHandler(&out, nil)), c, lost)
	const want = `msg=port_losses direction=ib_to_roce received=1000 lost_before=7 before="map[out_of_buffer:4 port_rcv_errors:3]" ` +
		`sent=990 lost_after=2 after=map[send_errors:2]`
	const unknown = `msg=port_losses direction=roce_to_ib received=0 lost_before=0 before=map[] sent=0 lost_after=0 after=map[] missed="not known"`
	for _, want := range []string{want + "\n", unknown + "\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestMetrics checks that every drop reason of both directions is there from the first scrape on, and readiness.
func TestMetrics(t *testing.T) {
	p, _ := launchBridge(t)
	text := scrape(t, p.line("metrics")["listen"].(string))
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		for _, reason := range lcore.Drops() {
			if line := fmt.Sprintf("\ncauseway_packets_dropped_total{direction=%q,reason=%q} 0\n", d, reason); !strings.Contains(text, line) {
				t.Errorf("no line %q", line)
			}
		}
	}
	for _, line := range []string{"causeway_ready 1", "causeway_groups 1", "causeway_nodes 1", "causeway_proxy_qps 0", "causeway_group_reports_total ", "causeway_log_lines_lost_total 0"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 200, "/status.json": 200, "/debug/pprof/": 404, "/nosuch": 404} {
		if got := status(t, "http://"+p.line("metrics")["listen"].(string)+path); got != want {
			t.Errorf("%s answers %d, want %d", path, got, want)
		}
	}
	p.end(syscall.SIGTERM)
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%v %v %v", r.Status, r.Header, err)
	}
	return "\n" + string(b)
}

func status(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// TestRunFailures checks that the exit code is 1, or 75 where a later try may succeed, and that one line says why and
// nothing else is printed.
func TestRunFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name  string
		edits []string
		want  string
		code  int
	}{
		{"a bad configuration", []string{"mtu = 4200", "mtu = 1"}, "causeway.toml:6: ", exitFailed},
		{"a metrics port in use", []string{"LISTEN", taken.Addr().String()}, taken.Addr().String(), exitFailed},
		{"no such interface", []string{`port = "ring"`, `port = "af_packet:nosuch0"`},
			`causeway.toml:4: roce: port "af_packet:nosuch0": there is no interface nosuch0 here; `, exitRetry},
		{"no such HCA", []string{`port = "fabric:DIR/fabric.toml"`, `port = "nosuch_0:1"`},
			`causeway.toml:8: ib: port "nosuch_0:1": there is no RDMA device nosuch_0 here`, exitRetry},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := launch(t, "run", "-c", bridgeIn(t, c.edits...))
			if code := p.wait(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			var said []string
			for line := range strings.Lines(p.stderr.String()) {
				if !strings.HasPrefix(line, "{") { // a line of the log
					said = append(said, line)
				}
			}
			if len(said) != 1 || !strings.Contains(said[0], c.want) {
				t.Errorf("said %q, want one line with %q", said, c.want)
			}
		})
	}
	p := launch(t, "run", "-c", "/nonexistent/causeway.toml")
	if code := p.wait(); code != exitFailed || strings.Count(p.stderr.String(), "\n") != 1 {
		t.Errorf("no file: exit code %d\n%v", code, &p.stderr)
	}
}

// TestExitCodes checks that the exit code tells a supervisor whether to start the bridge again.
func TestExitCodes(t *testing.T) {
	gone := fmt.Errorf("bridge: gone: %w", bridge.ErrDeviceGone)
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("something"), exitFailed},
		{gone, exitRetry},
		{errors.Join(gone, errors.New("and more")), exitRetry},
		{deviceNotReady{errors.New("no device")}, exitRetry},
		{fmt.Errorf("bridge: it has gone meanwhile: %w", dpdk.ErrNoInterface), exitRetry},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	code, stdout, _ := try("help", "run")
	if code != exitOK || !strings.Contains(stdout, fmt.Sprintf(" %d when the RDMA device", exitRetry)) {
		t.Errorf("help run does not mention exit code %d:\n%s", exitRetry, stdout)
	}
}
