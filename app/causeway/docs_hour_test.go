// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An hour is the state of a run through docs/first-hour.md, in a namespace and a folder of the test's own.
type hour struct {
	t      *testing.T
	here   place
	dir    string // in place of /etc/causeway and /run/causeway
	host   string // the RoCE host's namespace
	bridge *program
	ran    int
}

// elsewhere matches the page's commands that other tests run: packages, and the demonstration.
var elsewhere = regexp.MustCompile(`^(sudo make deb|sudo causeway demo$)`)

// expected maps a part of a command of the page to what the command prints.
var expected = []struct{ command, output string }{
	{"causeway check", "ok: 1 host, 1 group"},
	{"show status", "not ready: waiting for 1 join or path"},
	{"top", "roce_to_ib"},
	{"show drops", "mc_unknown"},
	{"trace drop any", "group 239.9.9.9 is not bridged"},
	{"reload check", "[[group]] 239.9.9.9  added"},
}

// TestDocsFirstHour does what docs/first-hour.md says, command by command; the test does what systemd would do.
func TestDocsFirstHour(t *testing.T) {
	needNamespaces(t)
	dir, err := os.MkdirTemp("", "hour") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "causeway")); err != nil {
		t.Fatal(err)
	}
	h := &hour{t: t, here: newPlace(t), dir: dir, host: fmt.Sprintf("hour%d", os.Getpid())}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", h.host).Run() }) // the page does so itself, if the test gets that far
	for _, d := range documents(t) {
		if d.path != filepath.Join("docs", "first-hour.md") {
			continue
		}
		for _, b := range d.blocks {
			h.follow(b)
		}
	}
	if h.ran < 20 || h.bridge == nil || !strings.Contains(h.bridge.stderr.String(), "conserved=true") {
		t.Errorf("%d commands were run; the bridge is %v", h.ran, h.bridge)
	}
}

// follow carries out a block of the page.
func (h *hour) follow(b block) {
	switch {
	case b.language == "toml":
		h.write(b.text)
	case b.language == "" && !strings.HasPrefix(b.text, "config:"):
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if words := shellCommands(line); len(words) > 0 && !elsewhere.MatchString(line) && isCommand(words[0][0]) {
				h.t.Log(line)
				h.do(line)
				h.ran++
			}
		}
	}
}

// isCommand distinguishes commands from their output.
func isCommand(word string) bool { return word == "sudo" || word == "causeway" }

// write writes a block of configuration to its file: the subnet's, the bridge's, or lines to append to the bridge's.
func (h *hour) write(text string) {
	name, how := "bridge.toml", os.O_APPEND
	if strings.Contains(text, "[fabric]") {
		name = "subnet.toml"
	}
	text = strings.Replace(text, "[workers]\n", fmt.Sprintf("[workers]\nlcores = [%d]\n", firstCPU(h.t)), 1)
	f, err := os.OpenFile(filepath.Join(h.dir, name), os.O_CREATE|os.O_WRONLY|how, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := f.WriteString("\n" + h.own(text)); err != nil {
		h.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		h.t.Fatal(err)
	}
}

var namespace = regexp.MustCompile(`(netns add|netns exec|netns delete|netns|-n) host\b`)

// own replaces the machine's folders and namespace by the test's.
func (h *hour) own(s string) string {
	s = strings.NewReplacer("/etc/causeway", h.dir, "/run/causeway", h.dir, "causeway ctl", "causeway ctl -s "+h.dir+"/console.sock").Replace(s)
	return namespace.ReplaceAllString(s, "$1 "+h.host)
}

// do runs a command: those of systemctl by signals to the bridge, and those that do not end in the background.
func (h *hour) do(line string) {
	line = strings.TrimPrefix(line, "sudo ")
	switch {
	case strings.HasPrefix(line, "systemctl start"):
		h.bridge = h.here.launch(h.t, "run", "-c", filepath.Join(h.dir, "bridge.toml"))
		h.bridge.awaitLine("path_missing")
	case strings.HasPrefix(line, "systemctl reload"):
		if err := h.bridge.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			h.t.Fatal(err)
		}
		h.bridge.awaitLine("msg=reloaded")
	case strings.HasPrefix(line, "systemctl stop"):
		h.bridge.end(syscall.SIGTERM)
	case strings.HasPrefix(line, "causeway listen"):
		h.start(line)
		h.bridge.awaitLine("msg=ready")
	case strings.Contains(line, "causeway send"):
		p := h.start(line)
		p.await("that it sends", func() bool { return strings.Contains(p.stdout.String(), "sends to") })
	case strings.HasSuffix(line, "ctl top"):
		h.run(line+" count 1", line)
	default:
		h.run(line, line)
	}
}

// command makes a process from a line.
func (h *hour) command(line string) *exec.Cmd {
	cmd := exec.Command(h.here[0], append(h.here[1:len(h.here):len(h.here)], "bash", "-c", `PATH="`+h.dir+`:$PATH"; `+h.own(line))...)
	cmd.Dir = h.dir
	return cmd
}

// start runs a command that does not end by itself.
func (h *hour) start(line string) *program { return start(h.t, h.command("exec "+line)) }

// run runs a command that ends, repeatedly until it prints what the page promises, because counters lag behind traffic.
// Only doctor may exit with findings.
func (h *hour) run(line, said string) {
	want := ""
	for _, e := range expected {
		if strings.Contains(said, e.command) && !strings.Contains(said, "capture") {
			want = e.output
		}
	}
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		cmd := h.command(line)
		cmd.Env = append(os.Environ(), mainVariable+"=1")
		out, err := cmd.CombinedOutput()
		doctor := strings.HasPrefix(line, "causeway doctor") && cmd.ProcessState.ExitCode() == exitFailed
		if (err == nil || doctor) && strings.Contains(string(out), want) {
			return
		}
		if err != nil && !doctor || time.Now().After(deadline) {
			h.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestDocsReadme runs the configuration of README.md until it bridges.
func TestDocsReadme(t *testing.T) {
	needNamespaces(t)
	dir, err := os.MkdirTemp("", "readme") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &hour{t: t, here: newPlace(t), dir: dir}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if d.path == "README.md" && b.language == "toml" {
				b.text = strings.ReplaceAll(b.text, "/run/causeway.sock", dir+"/fabric.sock")
				h.write(regexp.MustCompile(`(?m)^lcores = .*\n`).ReplaceAllString(b.text, ""))
			}
		}
	}
	h.here.do(t, "ip link add eth1 mtu 4200 type veth peer name eth0 mtu 4200")
	h.here.do(t, "ip link set eth0 up")
	h.here.do(t, "ip link set eth1 up")
	h.bridge = h.here.launch(t, "run", "-c", filepath.Join(dir, "bridge.toml"))
	h.bridge.awaitLine("msg=ready")
	h.bridge.end(syscall.SIGTERM)
}
