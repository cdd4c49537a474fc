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

// errUnconfirmed is a host that has not shown that it exists, and has as many proxy QPs as it gets until then.
type errUnconfirmed int

func (n errUnconfirmed) Error() string {
	return fmt.Sprintf("manage: the host has not answered ARP or ND yet, and has the %d proxy QPs that it gets until then; "+
		"see [workers] proxy_qps_unconfirmed", int(n))
}

// errStrangers is that too many hosts at a time are in that position.
type errStrangers struct{}

func (errStrangers) Error() string {
	return "manage: too many hosts that have not answered ARP or ND want proxy QPs: addresses may be forged; see [workers] proxy_qp_rate"
}

// IsOfStranger reports whether an error says that a host gets nothing until it has shown that it exists.
func IsOfStranger(err error) bool {
	switch err.(type) {
	case errUnconfirmed, errStrangers:
		return true
	}
	return false
}

var errRate = errors.New("manage: proxy QPs are wanted faster than [workers] proxy_qp_rate; raise it, or find out who wants so many")

type errHostRate int

func (n errHostRate) Error() string {
	return fmt.Sprintf("manage: the host wants more than %d proxy QPs in a second; raise [workers] proxy_qp_rate_per_host", int(n))
}

type errTotal int

func (n errTotal) Error() string {
	return fmt.Sprintf("manage: all %d proxy QPs are in use; raise [workers] proxy_qps", int(n))
}

// errDevice is a device that makes fewer than the limit.
type errDevice int

func (n errDevice) Error() string {
	return fmt.Sprintf("manage: the InfiniBand device makes no more than %d proxy QPs, and all are in use; see proxy_qps_short in the log", int(n))
}

type errPerHost int

func (n errPerHost) Error() string {
	return fmt.Sprintf("manage: the host has all its %d proxy QPs; raise [workers] proxy_qps_per_host", int(n))
}
