// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// claimPort makes this the only bridge with this Ethernet port and VLAN in its network namespace. Two on one interface would
// both carry every message, and nothing else would tell. The claim is a name in the abstract space of Unix sockets, which is
// the namespace's as interfaces are; it ends with the process, however that ends.
func (h *House) claimPort() error {
	name := claimName(h.cfg.RoCE.Port, h.cfg.RoCE.VLAN)
	if name == "" {
		return nil
	}
	l, err := net.Listen("unix", name)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("house: [roce] port %v: another causeway%s has it; stop that one, or name another port", h.cfg.RoCE.Port, holder(name))
	case err != nil:
		return fmt.Errorf("house: [roce] port %v: claim it: %w", h.cfg.RoCE.Port, err)
	}
	h.onTakeDown(l.Close)
	return nil
}

// claimName names what two processes cannot share; "" where the driver itself refuses the second, or makes a port of its own.
func claimName(p config.EthPort, vlan uint16) string {
	what := p.Arg
	switch p.Driver {
	case "af_packet", "mlx5":
	case "tap":
		_, what, _ = strings.Cut(p.Arg, ",remote=")
	default:
		return ""
	}
	if what == "" {
		return ""
	}
	return fmt.Sprintf("@causeway/port/%s/%d", what, vlan)
}

// holder says which process has a claim, if it can be told.
func holder(name string) string {
	c, err := net.Dial("unix", name)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }() // nothing was said
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	pid := int32(0)
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = cred.Pid
		}
	})
	if err != nil || pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
