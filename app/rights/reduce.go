// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// again is set in the environment of a process that runs the program for the second time, to its process ID.
const again = "CAUSEWAY_REDUCED"

// RunAgain reports whether Reduce has run the program again, and not yet returned.
func RunAgain() bool { return os.Getenv(again) == strconv.Itoa(os.Getpid()) }

// Reduce gives up all capabilities but those to keep, also for programs that this process may execute, and returns what
// is left. Root keeps one more if the file can be read by that alone. Capabilities are the threads', and Go has some
// threads already, so Reduce runs the program again, as the same process with the same arguments, where it returns.
// RDMA devices refuse a process whose capabilities have changed since it opened them: call it before.
func Reduce(keep Set, file string) (Set, error) {
	is, err := current()
	if err != nil {
		return 0, err
	}
	second := RunAgain()
	if second {
		keep |= is.permitted & (1 << unix.CAP_DAC_READ_SEARCH)
	}
	switch {
	case is.within(keep):
		return is.permitted, os.Unsetenv(again)
	case second:
		return 0, fmt.Errorf("rights: the program was run again with %v, but has %v; use -unconfined", keep, is.permitted)
	}
	runtime.LockOSThread() // for good, because this thread now has other capabilities than the others
	if keep, err = withRead(keep, is, file); err != nil {
		return 0, err
	}
	if err := limit(keep, is); err != nil {
		return 0, fmt.Errorf("rights: keep only %v: %w; allow capset and prctl, or use -unconfined", keep, err)
	}
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("rights: %w", err)
	}
	environment := append(os.Environ(), fmt.Sprint(again, "=", os.Getpid()))
	return 0, fmt.Errorf("rights: run %s again: %w; use -unconfined", program, unix.Exec(program, os.Args, environment))
}

// held are the rights of the calling thread.
type held struct {
	permitted, effective, inheritable, bounding Set
	noNewPrivs                                  bool
}

// lastCapability is the kernel's, at most; the kernel says which there are.
const lastCapability = 63

var version = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

func current() (h held, err error) {
	var set [2]unix.CapUserData
	header := version
	if err := unix.Capget(&header, &set[0]); err != nil {
		return h, fmt.Errorf("rights: read capabilities: %w", err)
	}
	h.permitted = Set(set[0].Permitted) | Set(set[1].Permitted)<<32
	h.effective = Set(set[0].Effective) | Set(set[1].Effective)<<32
	h.inheritable = Set(set[0].Inheritable) | Set(set[1].Inheritable)<<32
	for bit := range uint(lastCapability) {
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(bit), 0, 0, 0); err == nil && in == 1 {
			h.bounding |= 1 << bit
		}
	}
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	h.noNewPrivs = n == 1
	return h, err
}

// within reports whether nothing is left to give up. The bounding set can be limited only with CAP_SETPCAP, which is
// never kept; without it, no_new_privs does the same.
func (h held) within(keep Set) bool {
	return h.noNewPrivs && h.permitted&^keep == 0 && h.inheritable&^keep == 0
}

// set sets the thread's capabilities.
func set(permitted, effective, inheritable Set) error {
	data := [2]unix.CapUserData{
		{Permitted: uint32(permitted), Effective: uint32(effective), Inheritable: uint32(inheritable)},
		{Permitted: uint32(permitted >> 32), Effective: uint32(effective >> 32), Inheritable: uint32(inheritable >> 32)},
	}
	header := version
	return unix.Capset(&header, &data[0])
}

// limit gives up what is not kept. What is left survives exec as ambient capabilities, of users other than root too.
func limit(keep Set, is held) error {
	for bit := range uint(lastCapability) {
		if is.bounding.Has(bit) && !keep.Has(bit) && is.effective.Has(unix.CAP_SETPCAP) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	keep &= is.permitted & is.bounding
	if err := set(keep, keep, keep); err != nil {
		return err
	}
	for bit := range uint(lastCapability) {
		if keep.Has(bit) {
			if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(bit), 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// withRead adds to keep, for root, the capability without which the file cannot be read: another user's, for example,
// which a reload reads again.
func withRead(keep Set, is held, file string) (Set, error) {
	const read = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_DAC_OVERRIDE
	if is.effective&read == 0 {
		return keep, nil
	}
	if err := set(is.permitted, is.effective&^read, is.inheritable); err != nil {
		return keep, fmt.Errorf("rights: try to read without capabilities: %w", err)
	}
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // it was only read
	}
	if errors.Is(err, unix.EACCES) {
		keep |= 1 << unix.CAP_DAC_READ_SEARCH
	}
	return keep, set(is.permitted, is.effective, is.inheritable)
}
