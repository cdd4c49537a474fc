// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"errors"
	"fmt"
)

var errStopped = errors.New("manage: the bridge is stopping")

// errRemoved says why a proxy QP ended before it was made.
type errRemoved string

func (why errRemoved) Error() string {
	return "manage: the proxy QP ended while it was being made: " + string(why)
}

type errTotal int

func (n errTotal) Error() string {
	return fmt.Sprintf("manage: all %d proxy QPs are taken; raise [workers] proxy_qps", int(n))
}

type errPerHost int

func (n errPerHost) Error() string {
	return fmt.Sprintf("manage: the host has all its %d proxy QPs; raise [workers] proxy_qps_per_host", int(n))
}
