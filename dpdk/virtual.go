// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const defaultMTU = 1500

// planNull sends frames nowhere and receives frames of zeros without end.
func planNull(arg string, config *PortConfig) (portPlan, error) {
	mtu := mtuOr(config.MTU, defaultMTU)
	size := 64
	if arg != "" {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 14 || n > frameRoom(mtu) {
			return portPlan{}, fmt.Errorf("%q is no frame length; use 14 to %d bytes", arg, frameRoom(mtu))
		}
		size = n
	}
	return portPlan{args: fmt.Sprintf("size=%d", size), mtu: mtu, mbufRoom: frameRoom(mtu), tellMTU: true}, nil
}

// planPcap reads one file, once, and writes another, or drops what is sent.
func planPcap(arg string, config *PortConfig) (portPlan, error) {
	in, out, writes := strings.Cut(arg, ",")
	if in == "" || (writes && out == "") || strings.Contains(out, ",") {
		return portPlan{}, fmt.Errorf("write it as %s, file names without commas", formPcap)
	}
	f, err := os.Open(in)
	if err != nil {
		return portPlan{}, fmt.Errorf("capture file %s: %w", in, cause(err))
	}
	f.Close()
	args := "rx_pcap=" + in
	if writes {
		if _, err := os.Stat(filepath.Dir(out)); err != nil {
			return portPlan{}, fmt.Errorf("capture file %s: its folder: %w", out, cause(err))
		}
		args += ",tx_pcap=" + out
	}
	mtu := mtuOr(config.MTU, defaultMTU)
	return portPlan{args: args, mtu: mtu, mbufRoom: frameRoom(mtu), tellMTU: true}, nil
}

// cause leaves out the path, which the caller tells.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// planMemif: the buffers hold a whole frame, so that none is chained. The role is client unless given; a client's
// Start fails until its server is there.
func planMemif(arg string, config *PortConfig) (portPlan, error) {
	parts := strings.Split(arg, ",")
	if err := memifSocket(parts[0]); err != nil {
		return portPlan{}, err
	}
	for _, option := range parts[1:] {
		if !memifOption(option) {
			return portPlan{}, fmt.Errorf("option %q: write it as %s", option, formMemif)
		}
		if option == "role=server" {
			removeDeadSocket(parts[0])
		}
	}
	mtu := mtuOr(config.MTU, defaultMTU)
	descs := max(config.RxDescs, config.TxDescs)
	args := fmt.Sprintf("socket=%s,socket-abstract=no,bsize=%d,rsize=%d", parts[0], roundUp(frameRoom(mtu), 64),
		min(14, bits.Len(uint(descs-1)))) // rsize is a logarithm; 14 is ETH_MEMIF_MAX_LOG2_RING_SIZE
	args = strings.Join(append([]string{args}, parts[1:]...), ",")
	return portPlan{args: args, mtu: mtu, mbufRoom: frameRoom(mtu), misses: missesUnknown}, nil
}

func memifSocket(path string) error {
	dir := filepath.Dir(path)
	switch at, err := os.Stat(dir); {
	case path == "":
		return fmt.Errorf("write it as %s", formMemif)
	case len(path) > 107: // sun_path, and its zero byte
		return fmt.Errorf("socket %s: %d bytes are too long a path; a socket's has at most 107", path, len(path))
	case !filepath.IsAbs(path) || err != nil || !at.IsDir():
		return fmt.Errorf("socket %s: there is no folder %s; write an absolute path", path, dir)
	}
	return nil
}

// memifOption reports whether a port name may carry this on to the PMD, which takes any number for an id.
func memifOption(option string) bool {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "role":
		return value == "server" || value == "client"
	case "id":
		_, err := strconv.ParseUint(value, 10, 32)
		return err == nil
	case "mac":
		mac, err := net.ParseMAC(value)
		return err == nil && len(mac) == 6
	case "secret":
		return value != "" && len(value) < 24 // ETH_MEMIF_SECRET_SIZE
	}
	return false
}

// removeDeadSocket clears away what a server that was killed has left: a socket that nobody listens on.
func removeDeadSocket(path string) {
	at, err := os.Lstat(path)
	if err != nil || at.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unixpacket", path)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		_ = os.Remove(path) // if not, the PMD says that the address is in use
	}
}

// planTap makes a new interface; its MTU is ours to set, up to what the PMD sends. The PMD's Rx wakes by a real-time
// signal when one is free. In a Go process none is, the runtime handles them all, and so the PMD polls: no handler of
// its is ever installed, which would run on goroutine stacks.
//
// With remote=INTERFACE that one is shared with the kernel: the PMD redirects to the tap, by the kernel's flower
// classifier, what flow rules take there, and sends by it. It deletes the interface's queueing disciplines.
func planTap(arg string, config *PortConfig) (portPlan, error) {
	name, remote, shares := strings.Cut(arg, ",remote=")
	if err := interfaceName(name, formTap); err != nil {
		return portPlan{}, err
	}
	if _, err := net.InterfaceByName(name); err == nil {
		return portPlan{}, fmt.Errorf("there is an interface %s already; tap makes its own, choose another name", name)
	}
	if shares {
		if err := interfaceName(remote, formTap); err != nil {
			return portPlan{}, err
		}
		if _, err := net.InterfaceByName(remote); err != nil {
			return portPlan{}, noInterface{fmt.Errorf("there is no interface %s to share; there are %s", remote, interfaceNames())}
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return portPlan{}, fmt.Errorf("/dev/net/tun: %w; modprobe tun", cause(err))
	}
	mtu, carriers := mtuOr(config.MTU, defaultMTU), []string{name}
	if shares {
		carriers = []string{remote, name}
	}
	return portPlan{args: "iface=" + arg, mtu: mtu, mbufRoom: frameRoom(mtu), tellMTU: true, netdev: name, remote: remote,
		needs: capNetAdmin, misses: missesByTap, rxWakes: rxWakesByInterrupt, carriers: carriers}, nil
}

func interfaceName(name string, form string) error {
	if name == "" || len(name) > 15 || strings.ContainsAny(name, ",/ ") {
		return fmt.Errorf("%q is no interface name; write it as %s, the name at most 15 letters", name, form)
	}
	return nil
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
