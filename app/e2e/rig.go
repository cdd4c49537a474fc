// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	qemuProgram = "qemu-system-x86_64"
	// Port is the name of Causeway's interface on the segment: `port = "af_packet:cw0"`.
	Port = "cw0"
	// portPeer is its other end, in the bridge.
	portPeer = "cw0p"
	segment  = "br0"
)

// segments are the Ethernet segments that a guest's NIC can be on.
var segments = [...]string{segment, "br1"}

// Rig is a network namespace with an Ethernet segment that Causeway has an
// interface on, another that it has not, and guests on both.
type Rig struct {
	ns     *namespace
	image  string // folder with the guest's kernel and initramfs
	dir    string // sockets, logs, captures of this run
	guests []*Guest

	emulates bool // there is no kernel that is a process

	running
}

// running is what must be stopped before the namespace is removed.
type running struct {
	mu    sync.Mutex
	stops map[any]func()
}

func (r *running) add(key any, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stops == nil {
		r.stops = map[any]func(){}
	}
	r.stops[key] = stop
}

func (r *running) remove(key any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stops, key)
}

func (r *running) stopAll() {
	r.mu.Lock()
	stops := r.stops
	r.stops = nil
	r.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// Missing says in one line what this machine lacks to run the rig; nil if
// nothing.
func Missing() error {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root (network namespaces, taps)")
	}
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		lacks = append(lacks, "/dev/net/tun ("+err.Error()+")")
	} else {
		f.Close()
	}
	for program, from := range map[string]string{
		qemuProgram: "qemu-system-x86", "ip": "iproute2", "tcpdump": "tcpdump", "sysctl": "procps", "bash": "bash",
		"busybox": "busybox-static", "bc": "bc", "bison": "bison", "flex": "flex",
	} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program+" (package "+from+")")
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("e2e: cannot run here, missing: %s", strings.Join(lacks, "; "))
	}
	return nil
}

// NewRig makes the segments. The guest's image is built first if it is not
// there or its inputs have changed.
func NewRig() (*Rig, error) {
	image, err := buildImage()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "causeway-e2e-")
	if err != nil {
		return nil, err
	}
	ns, err := openNamespace()
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	r := &Rig{ns: ns, image: image, dir: dir}
	if _, err := os.Stat(r.kernel()); err != nil {
		r.emulates = true
		log.Print("e2e: QEMU emulates all guests: guest/build has found that system calls are dear on this machine")
	}
	if err := ns.run(layout()); err != nil {
		r.Close()
		return nil, fmt.Errorf("lay out the segment: %w", err)
	}
	return r, nil
}

// buildImage runs guest/build and returns the folder it names.
func buildImage() (string, error) {
	var progress strings.Builder
	cmd := exec.Command("guest/build")
	cmd.Stderr = &progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("guest/build: %w: %s", err, lastLines(progress.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// layout makes the segments: bridges that flood all multicast (nobody here
// sends IGMP queries), the host itself without IPv6 and so silent.
func layout() string {
	return fmt.Sprintf(`
		sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
		ip link set lo up
		ip link add %[1]s type bridge stp_state 0 forward_delay 0 mcast_snooping 0
		ip link set %[1]s mtu %[4]d up
		ip link add %[5]s type bridge stp_state 0 forward_delay 0 mcast_snooping 0
		ip link set %[5]s mtu %[4]d up
		ip link add %[2]s mtu %[4]d type veth peer name %[3]s mtu %[4]d
		ip link set %[3]s master %[1]s up
		ip link set %[2]s up`, segment, Port, portPeer, wireMTU, segments[1])
}

// addTap makes the tap of a guest's NIC, unless an earlier guest of that name has left it.
func (r *Rig) addTap(name, segment string) error {
	if r.ns.run("ip link show "+name) == nil {
		return nil
	}
	return r.ns.run(fmt.Sprintf(`
		ip tuntap add %[1]s mode tap
		ip link set %[1]s mtu %[2]d master %[3]s up`, name, wireMTU, segment))
}

// file returns the path of a file of this run.
func (r *Rig) file(name string) string { return filepath.Join(r.dir, name) }

// Dir is where logs, consoles and captures of this run are. Close removes it.
func (r *Rig) Dir() string { return r.dir }

// Do runs f by the thread that lives in the rig's namespace: a socket that f
// opens is on this segment for good. f must not call the rig.
func (r *Rig) Do(f func() error) error { return r.ns.do(f) }

// Boot starts guests and waits until all are set up.
func (r *Rig) Boot(ctx context.Context, configs ...GuestConfig) ([]*Guest, error) {
	var guests []*Guest
	for _, c := range configs {
		g, err := r.StartGuest(c)
		if err != nil {
			return nil, err
		}
		guests = append(guests, g)
	}
	for i, g := range guests {
		if err := g.Ready(ctx, configs[i]); err != nil {
			return nil, err
		}
	}
	return guests, nil
}

// Close ends what the rig started, removes the namespace and, unless the logs
// are to stay, the files.
func (r *Rig) Close() {
	r.end()
	os.RemoveAll(r.dir)
}

// CloseKeepingLogs is Close for a run that failed.
func (r *Rig) CloseKeepingLogs() { r.end() }

func (r *Rig) end() {
	r.stopAll()
	for _, g := range slices.Clone(r.guests) {
		g.Stop()
	}
	r.ns.close()
}

// Advice tells how to look into a running rig by hand.
func (r *Rig) Advice() string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	for _, g := range r.guests {
		shell := "socat -,raw,echo=0,escape=0x1d UNIX:" + g.console + ".socket"
		leave := "ctrl-]"
		switch {
		case g.container:
			shell, leave = fmt.Sprintf("nsenter --target %d --all --root sh", g.machine.pid()), "exit"
		case !g.emulated: // its console says which terminal of this machine it is
			shell = "socat -,raw,echo=0,escape=0x1d $(grep -o '/dev/pts/[0-9]*' " + g.console + " | tail -n 1)"
		}
		line("guest %s: %s    (a shell; leave with %s)", g.Name, shell, leave)
	}
	if len(r.guests) > 0 {
		line("the segments: nsenter --net=/proc/%d/ns/net    (ip link, tcpdump -i %s, causeway run ...)", r.guests[0].machine.pid(), segment)
	}
	line("logs: %s", r.dir)
	line("all of it ends with ctrl-C")
	return b.String()
}
