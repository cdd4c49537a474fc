// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// startKernel starts the guest's kernel as a process of this machine (User Mode Linux). The returned connection leads to its
// agent. Its NICs have no offloads: frames leave a guest with their checksums, as on a cable.
func (r *Rig) startKernel(c GuestConfig, console string) (*process, net.Conn, error) {
	mine, its, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer its.Close()
	p, err := r.ns.launchOn(nil, []*os.File{its}, "kernel of "+c.Name, console, r.kernelCommand(c)...)
	if err != nil {
		mine.Close()
		return nil, nil, err
	}
	return p, mine, nil
}

// socketPair returns two ends of a byte stream, the second one for another process.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	mine, its := os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "agent")
	defer mine.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		its.Close()
		return nil, nil, err
	}
	return conn, its, nil
}

// kernel is the kernel as a program.
func (r *Rig) kernel() string { return filepath.Join(r.image, "uml", "kernel") }

// kernelCommand is the kernel's command line. The first file beyond standard error, 3, is the agent's.
func (r *Rig) kernelCommand(c GuestConfig) []string {
	args := []string{
		r.kernel(), fmt.Sprintf("mem=%dM", max(c.MiB, guestMiB)),
		"initrd=" + filepath.Join(r.image, "initramfs.cpio"),
		"uml_dir=" + r.file("uml") + "/",
		"con=null", "con0=null,fd:1", "con1=pts", "ssl=null", "ssl0=fd:3",
		"quiet", "panic=-1", "bonding.max_bonds=0",
	}
	for i, nic := range c.NICs {
		wire := "transport=tap,ifname=" + tap(c.Name, i)
		if a := nic.InfiniBand; a != nil {
			wire = fmt.Sprintf("transport=bess,src=%s,dst=%s", r.cableSocket(cmp.Or(a.Cable, c.Name)), r.cableSocket(a.Peer))
		}
		args = append(args, fmt.Sprintf("vec%d:mac=%s,mtu=%d,%s", i, mac(c.Name, i), wireMTU, wire))
	}
	if c.Share != "" {
		args = append(args, "share="+c.Share) // init mounts it
	}
	return args
}
