// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// claimPort makes this the only bridge with this Ethernet port and VLAN in its network namespace: two on one interface would
// both carry every message, without any error. The claim is an abstract Unix socket, which belongs to the network namespace as
// interfaces do, and which ends with the process.
func claimPort(cfg *config.Config, undo *teardown) error {
	name := claimName(cfg.RoCE.Port, cfg.RoCE.VLAN)
	if name == "" {
		return nil
	}
	l, err := net.Listen("unix", name)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("bridge: [roce] port %v: another causeway%s has it; stop that one, or name another port", cfg.RoCE.Port, holder(name))
	case err != nil:
		return fmt.Errorf("bridge: [roce] port %v: claim it: %w", cfg.RoCE.Port, err)
	}
	undo.add(l.Close)
	return nil
}

// claimName names what two processes cannot share; "" where the driver itself rejects the second, or makes a port of its own.
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

// holder names the process that has a claim; "" when that cannot be found out.
func holder(name string) string {
	c, err := net.Dial("unix", name)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }() // nothing was written
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
