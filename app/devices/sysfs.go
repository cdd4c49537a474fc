// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sysfs opens the machine's sysfs, as the network namespace of this process sees it. A mounted sysfs shows the
// interfaces of the namespace that it was mounted from for ever, so under nsenter or a service manager /sys may
// show others than the doors will meet. Then a mount of its own is made, which nobody else sees and which ends
// with closeIt; that takes CAP_SYS_ADMIN.
func Sysfs() (sys fs.FS, closeIt func(), err error) {
	sys, wrong := os.DirFS("/sys"), error(nil)
	for range 3 { // interfaces may come and go between two looks
		if wrong = shows(sys); wrong == nil {
			return sys, func() {}, nil
		}
	}
	mount, err := mountSysfs()
	if err != nil {
		return nil, nil, fmt.Errorf("devices: /sys does not show this network namespace: %w; and mounting one that does: %w", wrong, err)
	}
	return os.DirFS("/proc/self/fd/" + strconv.Itoa(int(mount.Fd()))), func() { mount.Close() }, nil
}

// shows compares the interfaces of a sysfs with those that the kernel lists for this process.
func shows(sys fs.FS) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	s, seen := sysfs{sys}, 0
	for _, name := range s.names(classNet) {
		if s.text(classNet, name, "ifindex") != "" {
			seen++
		}
	}
	for _, i := range all {
		if s.number(classNet, i.Name, "ifindex") != i.Index {
			return fmt.Errorf("%s is not in it", i.Name)
		}
	}
	if seen != len(all) {
		return fmt.Errorf("it has %d interfaces, the namespace %d", seen, len(all))
	}
	return nil
}

// mountSysfs makes a mount that is attached nowhere (fsopen(2), fsmount(2)); closing the file ends it.
func mountSysfs() (*os.File, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	const flags = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, flags)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	f := os.NewFile(uintptr(mount), "sysfs")
	if f == nil {
		return nil, errors.New("fsmount: no file")
	}
	return f, nil
}
