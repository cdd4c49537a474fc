// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// A Process answers queries that no file answers: about this process, the clock, the link, and the subnet
// administrator.
type Process interface {
	// Access returns why this user cannot read and write a file; nil: it can.
	Access(path string) error
	// CPUs returns the CPUs that this process may run on; nil: unknown.
	CPUs() []int
	// Clock reports whether the system clock is synchronised, and its largest error.
	Clock() (synchronised bool, error time.Duration)
	// PFC returns the priorities of an interface with flow control, one bit each.
	PFC(netdev string) (uint8, error)
	// Path queries the subnet administrator for the path from a port to itself.
	Path(device string, port int) (ib.PathFields, error)
}

// Here is this process.
type Here struct{}

var _ Process = Here{}

// Access implements Process.
func (Here) Access(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
}

// CPUs implements Process.
func (Here) CPUs() []int {
	var set unix.CPUSet
	// Of the first thread; Go's other threads may be pinned.
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil
	}
	var out []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out
}

// Clock implements Process. Adjtimex(2) without a mode changes nothing.
func (Here) Clock() (synchronised bool, err time.Duration) {
	var t unix.Timex
	state, wrong := unix.Adjtimex(&t)
	return wrong == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, time.Duration(t.Maxerror) * time.Microsecond
}

// PFC implements Process.
func (Here) PFC(netdev string) (uint8, error) { return askPFC(netdev) }

// Path implements Process. It takes at most a second and registers nothing on the subnet.
func (Here) Path(device string, port int) (ib.PathFields, error) {
	umad, err := sa.OpenUmad(device, port)
	if err != nil {
		return ib.PathFields{}, err
	}
	return ownPath(umad)
}

// ownPath makes the query over a transport, which it closes.
func ownPath(t sa.Transport) (ib.PathFields, error) {
	client := sa.NewClient(t, sa.Config{Tries: 2})
	defer client.Close()
	const patience = 1500 * time.Millisecond
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	state, err := client.PortState()
	if err != nil {
		return ib.PathFields{}, fmt.Errorf("state of the port: %w", err)
	}
	return client.Path(ctx, state.GID)
}
