// SPDX-License-Identifier: Apache-2.0

package proxyqps

import "fmt"

type errTotal int

func (n errTotal) Error() string {
	return fmt.Sprintf("manage: all %d proxy QPs are taken; raise [workers] proxy_qps", int(n))
}

type errPerHost int

func (n errPerHost) Error() string {
	return fmt.Sprintf("manage: the host has all its %d proxy QPs; raise [workers] proxy_qps_per_host", int(n))
}
