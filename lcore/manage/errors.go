// SPDX-License-Identifier: Apache-2.0

package manage

import "fmt"

type errTotal int

func (n errTotal) Error() string {
	return fmt.Sprintf("manage: all %d stand-ins are taken; raise [workers] standins", int(n))
}

type errPerHost int

func (n errPerHost) Error() string {
	return fmt.Sprintf("manage: the host has all its %d stand-ins; raise [workers] standins_per_host", int(n))
}

type errHosts int

func (n errHosts) Error() string {
	return fmt.Sprintf("manage: all %d RoCE hosts that may be known are known; raise [workers] hosts", int(n))
}
