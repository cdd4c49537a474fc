// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"causeway/lcore/frame"
)

var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// deviceOf returns the EAL arguments for a port.
func deviceOf(port string) ([]string, error) {
	kind, rest, _ := strings.Cut(port, ":")
	switch {
	case pciAddress.MatchString(port):
		return []string{"-a", port}, nil
	case kind == "memif" && rest != "":
		socket, options, more := strings.Cut(rest, ",")
		socket, err := filepath.Abs(socket) // pktgen may run in another directory
		if err != nil {
			return nil, fmt.Errorf("pktgen: port %q: %w", port, err)
		}
		vdev := fmt.Sprintf("net_memif0,socket=%s,socket-abstract=no,bsize=8192", socket)
		if more {
			vdev += "," + options
		}
		return []string{"--no-pci", "--vdev", vdev}, nil
	case kind == "af_packet" && rest != "":
		return []string{"--no-pci", "--vdev", fmt.Sprintf("net_af_packet0,iface=%s,blocksz=65536,framesz=8192,framecnt=512", rest)}, nil
	}
	return nil, fmt.Errorf("pktgen: port %q; write it as memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address", port)
}

// ready checks for the usual reasons why a run would fail or hang, and explains them better than pktgen does.
func (r Runner) ready() error {
	kind, rest, _ := strings.Cut(r.Port, ":")
	switch kind {
	case "memif":
		socket, options, _ := strings.Cut(rest, ",")
		if strings.Contains(options, "role=server") {
			break
		}
		if _, err := os.Stat(socket); err != nil {
			return fmt.Errorf("pktgen: %s: there is no such socket; first start a bridge whose port is memif:%s,role=server", r.Port, socket)
		}
	case "af_packet":
		link, err := net.InterfaceByName(rest)
		if err != nil {
			return fmt.Errorf("pktgen: %s: there is no interface %s here; ip link lists those that there are", r.Port, rest)
		}
		if need := r.Longest - frame.EthernetLen; link.MTU < need {
			return fmt.Errorf("pktgen: %s: its MTU is %d; the longest frame needs %d", r.Port, link.MTU, need)
		}
	}
	if free := freeHugeMiB("/sys/kernel/mm/hugepages"); r.Huge && free < memoryMiB {
		return fmt.Errorf("pktgen: %d MiB of hugepages are free, pktgen needs %d; raise vm.nr_hugepages, or run without -huge", free, memoryMiB)
	}
	return nil
}

// freeHugeMiB is the memory in free hugepages of all sizes.
func freeHugeMiB(dir string) int {
	sum := 0
	sizes, _ := filepath.Glob(filepath.Join(dir, "hugepages-*kB")) // none when the kernel has none
	for _, d := range sizes {
		kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(d), "hugepages-"), "kB"))
		text, _ := os.ReadFile(filepath.Join(d, "free_hugepages"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		sum += n * kb / 1024
	}
	return sum
}

//go:embed preload/mtu.c
var mtuSource []byte

// environment returns pktgen's environment. Pktgen ends where it cannot set an MTU of 9216: on net_memif, which has no
// MTU, and on net_af_packet, which takes longer frames than it reports. A preloaded library hides those two errors.
func (r Runner) environment(dir string) ([]string, error) {
	env := append(os.Environ(), "TERM=dumb")
	if pciAddress.MatchString(r.Port) {
		return env, nil
	}
	source, library := filepath.Join(dir, "mtu.c"), filepath.Join(dir, "mtu.so")
	if err := os.WriteFile(source, mtuSource, 0o644); err != nil {
		return nil, fmt.Errorf("pktgen: %w", err)
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pktgen: cannot compile the library that pktgen needs on this port: %w %s", err, out)
	}
	if library, err = filepath.Abs(library); err != nil {
		return nil, err
	}
	preload := library
	if before := os.Getenv("LD_PRELOAD"); before != "" {
		preload += ":" + before
	}
	return append(env, "LD_PRELOAD="+preload), nil
}

// explain adds advice to pktgen's error message.
func (r Runner) explain(problem string) string {
	has := func(s string) bool { return strings.Contains(problem, s) }
	switch {
	case has("no link") && strings.HasPrefix(r.Port, "memif:"):
		return fmt.Sprintf("%s: nothing is connected to the other end; is the bridge running?", r.Port)
	case has("no link"):
		return fmt.Sprintf("%s: the port has no link", r.Port)
	case has("Cannot set MTU") && !pciAddress.MatchString(r.Port):
		return problem + ": pktgen must be linked to DPDK's shared libraries"
	case has("Cannot set MTU"):
		return problem + ": the port must take jumbo frames"
	case has("Cannot create mbuf pool"), has("Cannot get hugepage"):
		return fmt.Sprintf("%s; it needs %d MiB", problem, memoryMiB)
	}
	return problem
}
