// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A service of docker/compose.yaml, with the keys that this test uses.
type service struct {
	command []string // after the entrypoint
	health  []string // the health check's command, run without the entrypoint
	caps    []string
	root    bool
	address string   // on the Ethernet network; "": none
	volumes []string // of this machine, in buildah's form
}

// compose reads the services of docker/compose.yaml. It expects each service on a line that is indented by two, and
// each key on one line below it.
func compose(t *testing.T) map[string]service {
	t.Helper()
	text, err := os.ReadFile("../docker/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ = bytes.Cut(text, []byte("\nnetworks:\n"))
	name, key := regexp.MustCompile(`^  ([a-z-]+):$`), regexp.MustCompile(`^ {4,6}([a-z_]+): (.*)$`)
	all, at := map[string]service{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := name.FindStringSubmatch(line); m != nil {
			at = m[1]
		}
		m := key.FindStringSubmatch(line)
		if m == nil || at == "" {
			continue
		}
		s := all[at]
		switch m[1] {
		case "command":
			s.command = list(t, m[2])
		case "test":
			s.health = list(t, m[2])[1:] // after CMD
		case "cap_add":
			s.caps = strings.Split(strings.Trim(m[2], "[]"), ", ")
		case "user":
			s.root = m[2] == `"0:0"`
		case "networks":
			s.address = regexp.MustCompile(`[0-9]+(\.[0-9]+){3}`).FindString(m[2])
		}
		all[at] = s
	}
	for _, needed := range []string{"bridge", "node-listens", "node-sends", "host-listens", "host-sends", "demo"} {
		if len(all[needed].command) == 0 {
			t.Fatalf("docker/compose.yaml has no service %s with a command", needed)
		}
	}
	return all
}

// list reads a list of quoted strings, which YAML and JSON write alike.
func list(t *testing.T, text string) (out []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out) == 0 {
		t.Fatalf("docker/compose.yaml: %s: %v", text, err)
	}
	return out
}

// running is a running container, as a process of this machine.
type running struct {
	cmd  *exec.Cmd
	out  strings.Builder
	done chan error
}

// start runs a service in the image with its entrypoint, user and capabilities, in the network namespace of a process
// unless that is 0.
func (e *engine) start(t *testing.T, container string, s service, netns int) *running {
	t.Helper()
	return e.run(t, container, s, netns, append([]string{"with-capabilities", "causeway"}, s.command...))
}

// run runs a command as start does, without the entrypoint.
func (e *engine) run(t *testing.T, container string, s service, netns int, command []string) *running {
	t.Helper()
	args := []string{"buildah", "run"}
	if netns != 0 {
		args = append([]string{"nsenter", "-t", fmt.Sprint(netns), "-n"}, args...)
	}
	for _, c := range s.caps {
		args = append(args, "--cap-add", "CAP_"+c)
	}
	for _, v := range s.volumes {
		args = append(args, "--volume", v)
	}
	if s.root {
		args = append(args, "--user", "0:0")
	}
	args = append(append(args, container, "--"), command...)
	r := &running{cmd: exec.Command(args[0], args[1:]...), done: make(chan error, 1)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = e.env, &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	return r
}

// wait waits for the container's end.
func (r *running) wait() (string, error) {
	select {
	case err := <-r.done:
		return r.out.String(), err
	case <-time.After(2 * time.Minute):
		_ = r.cmd.Process.Kill()
		return r.out.String(), fmt.Errorf("the container does not end: %v", <-r.done)
	}
}

// namespace makes a network namespace that lasts as long as the test, and returns a process in it.
func namespace(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("unshare", "-n", "sleep", "infinity")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it sleeps until it is killed
		_ = cmd.Wait()
	})
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if now, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)); err == nil && now != own {
			return cmd.Process.Pid
		}
	}
	t.Fatal("unshare makes no namespace")
	return 0
}

// fabrics makes the networks that docker compose up makes: a switch, and for each service a namespace with or without
// an eth0 on it.
func fabrics(t *testing.T, e *engine, container string, services map[string]service) {
	lan, dir := namespace(t), t.TempDir()
	in := func(pid int, script string) { must(t, "nsenter", "-t", fmt.Sprint(pid), "-n", "sh", "-c", script) }
	in(lan, "ip link add br0 type bridge && ip link set br0 up")
	must(t, "chmod", "755", filepath.Dir(dir), dir)
	must(t, "install", "-d", "-o", "10001", filepath.Join(dir, "run"))
	demo, err := filepath.Abs("../docker/demo")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(name string) (r *running, ns int) {
		s, ns := services[name], namespace(t)
		s.volumes = []string{filepath.Join(dir, "run") + ":/run/causeway", demo + ":/etc/causeway:ro"}
		in(ns, "ip link set lo up")
		if s.address != "" {
			port := fmt.Sprintf("port%d", ns)
			in(lan, fmt.Sprintf("ip link add %s type veth peer name eth0 netns %d && ip link set %s master br0 up", port, ns, port))
			in(ns, "ip addr add "+s.address+"/24 dev eth0 && ip link set eth0 up")
		}
		return e.start(t, container, s, ns), ns
	}
	bridge, ns := begin("bridge")
	t.Cleanup(func() { stopBridge(t, bridge, ns) })
	for deadline := time.Now().Add(time.Minute); ; {
		out, err := e.run(t, container, service{}, ns, services["bridge"].health).wait()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the bridge is not healthy after a minute: %v\n%s", err, out)
		}
	}
	listeners, senders := map[string]*running{}, map[string]*running{}
	for _, name := range []string{"host", "node"} {
		listeners[name], _ = begin(name + "-listens")
	}
	for _, name := range []string{"host", "node"} {
		senders[name], _ = begin(name + "-sends")
	}
	for name, s := range senders {
		if out, err := s.wait(); err != nil {
			t.Errorf("%s-sends: %v\n%s", name, err, out)
		}
	}
	for name, l := range listeners {
		out, err := l.wait()
		t.Logf("%s-listens:\n%s", name, out)
		if err != nil {
			t.Errorf("%s-listens: %v", name, err)
		}
	}
}

// stopBridge ends the bridge as container engines do, by SIGTERM. It is the only causeway in its network namespace.
func stopBridge(t *testing.T, r *running, netns int) {
	t.Helper()
	must(t, "pkill", "-TERM", "-x", "--ns", fmt.Sprint(netns), "--nslist", "net", "causeway")
	out, err := r.wait()
	t.Logf("bridge: %v\n%s", err, tail(out))
	if !strings.Contains(out, "conserved=true") || strings.Contains(out, "conserved=false") {
		t.Error("the bridge does not account for all packets, or was killed")
	}
}
