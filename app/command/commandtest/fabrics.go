// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"fmt"

	"causeway/ibside/multipath"
)

// Fabrics returns two InfiniBand ports.
func (ports) Fabrics() []multipath.Report {
	return []multipath.Report{
		{Name: "mlx5_0:1", Fabric: "a", Groups: 1, ActiveGroups: 1, Nodes: 1, ActiveNodes: 1, Counters: multipath.Counters{Posted: 9, Sent: 7, Full: 2, Received: 8}},
		{Name: "mlx5_1:1", Fabric: "b", Down: "port mlx5_1:1 is DOWN: check the cable", SMSilent: true, Loss: 0.25, Missing: 1,
			Counters: multipath.Counters{Received: 8, Standby: 8}},
	}
}

// PreferPort accepts the first port's name.
func (p ports) PreferPort(name string) error {
	for _, f := range p.Fabrics() {
		if f.Name == name || name == "" {
			return nil
		}
	}
	return fmt.Errorf("there is no port %q", name)
}
