// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// ListenError says why a bridge cannot listen at an address of a section of its configuration, and what to do.
func ListenError(section string, at config.Listen, err error) error {
	what := err.Error()
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		what = "no interface of this machine has that address; write one that has (\"ip address\" lists them), 127.0.0.1 or 0.0.0.0"
	case errors.Is(err, unix.EADDRINUSE):
		what = "another program listens there; write another port, or stop that program"
		if a, failed := netip.ParseAddrPort(at.Address); failed == nil {
			what += fmt.Sprintf(" (ss -tlnp sport = :%d shows it)", a.Port())
		}
	case errors.Is(err, fs.ErrPermission):
		what = "this user may not listen there; use sudo, or write a path or port that it may use"
	}
	return fmt.Errorf("causeway: [%s] listen %q: %s", section, at.Address, what)
}
