// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl calls an ioctl of a device with a structure, which the kernel may change, or with none.
func ioctl(fd int, request uint, arg []byte) error {
	var p unsafe.Pointer
	if len(arg) > 0 {
		p = unsafe.Pointer(&arg[0])
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}
