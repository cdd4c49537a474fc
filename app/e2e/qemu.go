// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"causeway/app/e2e/agent"
)

// jitMiB bounds QEMU's cache of translated code, which else takes 1 GiB.
const jitMiB = 96

// emulated says whether a guest needs QEMU's machine: the kernel as a process has one CPU, no NUMA nodes and no PCI cards, and
// guest/build makes none where system calls are dear. QEMU has no help from this machine's CPU and is ten times slower.
func (r *Rig) emulated(c GuestConfig) bool {
	return !c.Container && r.emulates || c.Emulated || c.CPUs > 1 || c.QEMU != nil || c.Kernel != ""
}

// startQEMU starts the guest by QEMU and connects to its agent's port.
func (r *Rig) startQEMU(c GuestConfig, console string) (*process, net.Conn, error) {
	socket := r.file(c.Name + ".agent")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an earlier guest of that name
		return nil, nil, err
	}
	qemu, err := r.ns.launch("qemu "+c.Name, r.file(c.Name+".qemu"), r.qemuCommand(c, console, socket)...)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootWithin)
	defer cancel()
	err = qemu.await(ctx, func(string) bool { _, err := os.Stat(socket); return err == nil })
	if err != nil {
		return nil, nil, err
	}
	conn, err := net.Dial("unix", socket)
	for errors.Is(err, syscall.ECONNREFUSED) && ctx.Err() == nil { // between its bind and its listen
		time.Sleep(pollEvery)
		conn, err = net.Dial("unix", socket)
	}
	return qemu, conn, err
}

// threads is how many emulate a guest's CPUs. With one for each, and more of them than this machine has CPUs, kernels wait for CPUs that
// do not run: beside busy loops a guest of four did not boot once.
func threads(cpus int) string {
	if cpus > 2 {
		return "single"
	}
	return "multi"
}

// qemuCommand is QEMU's command line. NICs have no offloads: frames leave a guest as on a wire, with their checksums.
func (r *Rig) qemuCommand(c GuestConfig, console, socket string) []string {
	args := []string{
		qemuProgram, "-accel", fmt.Sprintf("tcg,thread=%s,tb-size=%d", threads(c.CPUs), jitMiB), "-cpu", "max", "-M", "q35",
		"-m", fmt.Sprint(max(c.MiB, guestMiB)), "-smp", fmt.Sprint(max(c.CPUs, 1)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(r.image, "vmlinux"), "-initrd", filepath.Join(r.image, "initramfs.cpio"),
		"-append", "console=ttyS0 quiet panic=-1 nokaslr mitigations=off audit=0 apparmor=0 tsc=reliable " +
			"no_timer_check random.trust_cpu=on net.ifnames=0 " + c.Kernel,
		"-chardev", "socket,id=console,server=on,wait=off,path=" + console + ".socket,logfile=" + console,
		"-serial", "chardev:console",
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,server=on,wait=off,path=" + socket,
		"-device", "virtserialport,chardev=agent,name=" + agent.PortName,
	}
	for i, nic := range c.NICs {
		backend := fmt.Sprintf("tap,id=nic%d,ifname=%s,script=no,downscript=no", i, tap(c.Name, i))
		if nic.InfiniBand != nil {
			backend = nic.InfiniBand.backend(r, fmt.Sprintf("nic%d", i), c.Name)
		}
		args = append(args,
			"-netdev", backend,
			"-device", fmt.Sprintf("virtio-net-pci,netdev=nic%d,mac=%s,addr=0x%x,romfile=,host_mtu=%d,csum=off,guest_csum=off,"+
				"gso=off,host_tso4=off,host_tso6=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,host_ufo=off",
				i, mac(c.Name, i), 0x10+i, wireMTU))
	}
	args = append(args, c.QEMU...)
	if c.Share != "" {
		args = append(args, "-virtfs", "local,mount_tag=host,security_model=none,multidevs=remap,path="+c.Share)
	}
	return args
}
