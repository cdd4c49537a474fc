// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenSysfs opens the sysfs of this process's network namespace. A sysfs shows the interfaces of the namespace in which
// it was mounted, so /sys may show those of another namespace, such as under nsenter. OpenSysfs then mounts a sysfs of
// its own, detached and private, which closeIt unmounts; this needs CAP_SYS_ADMIN.
func OpenSysfs() (sys fs.FS, closeIt func(), err error) {
	sys, wrong := os.DirFS("/sys"), error(nil)
	for range 3 { // interfaces may come and go meanwhile
		if wrong = shows(sys); wrong == nil {
			return sys, func() {}, nil
		}
	}
	mount, err := mountSysfs()
	if err != nil {
		return nil, nil, fmt.Errorf("doctor: /sys does not show this network namespace: %w; and mounting one that does: %w", wrong, err)
	}
	return os.DirFS("/proc/self/fd/" + strconv.Itoa(int(mount.Fd()))), func() { mount.Close() }, nil
}

// shows checks that a sysfs has the interfaces that the kernel lists for this process, and no others.
func shows(sys fs.FS) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	t, seen := tree{sys}, 0
	for _, name := range t.names(classNet) {
		if t.text(classNet, name, "ifindex") != "" {
			seen++
		}
	}
	for _, i := range all {
		if t.number(classNet, i.Name, "ifindex") != i.Index {
			return fmt.Errorf("%s is not in it", i.Name)
		}
	}
	if seen != len(all) {
		return fmt.Errorf("it has %d interfaces, the namespace %d", seen, len(all))
	}
	return nil
}

// mountSysfs makes a detached mount (fsopen(2), fsmount(2)); closing the file unmounts it.
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
