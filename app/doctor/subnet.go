// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"

	"causeway/config"
	"causeway/ibside/fabric"
)

// NoSubnet returns why a port of another process's software subnet cannot be attached now; "": it can, or the port is
// another. mayCome is true when that process may start later.
func NoSubnet(port config.IBPort) (why string, mayCome bool) {
	if !port.Fabric || !fabric.AtSocket(port.File) {
		return "", false
	}
	err := fabric.Probe(port.File)
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, fabric.ErrNoSubnet):
		return "no subnet is there; start the process that has this [fabric] socket in its topology file", true
	}
	return err.Error(), false
}
