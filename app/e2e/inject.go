// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"syscall"
)

// Inject sends frames on an interface of the segment, unchanged: on "tapA" only guest A receives them, on "cw0p" only
// Causeway.
func (r *Rig) Inject(dev string, frames ...[]byte) error {
	err := r.Do(func() error {
		netdev, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		for _, frame := range frames {
			if err := syscall.Sendto(fd, frame, 0, &syscall.SockaddrLinklayer{Ifindex: netdev.Index}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("inject into %s: %w", dev, err)
	}
	return nil
}
