// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
)

// Faults that a guest can be given, and their ends.

// LoseDevice takes an RDMA device away, as an unplugged HCA. The kernel waits, and
// so does this, until no process has it open any more: end ctx to give up.
func (g *Guest) LoseDevice(ctx context.Context, device string) error {
	return g.Must(ctx, "rdma link delete "+device)
}

// FindDevice makes an RDMA device (again).
func (g *Guest) FindDevice(ctx context.Context, device, netdev string) error {
	return g.Must(ctx, fmt.Sprintf("rdma link add %s type rxe netdev %s\n", device, netdev)+rdmaNodes)
}

// PullCable takes an interface down. The kernel then forgets its IPv6 addresses,
// and a queue pair that sends meanwhile goes into its error state.
func (g *Guest) PullCable(ctx context.Context, netdev string) error {
	return g.Must(ctx, "ip link set "+netdev+" down")
}

// PlugCable takes an interface up and gives it what addresses it has lost.
func (g *Guest) PlugCable(ctx context.Context, netdev string, nic NIC) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ip link set %s up\n", netdev)
	for _, a := range nic.Addrs {
		fmt.Fprintf(&b, "ip addr replace %s dev %s\n", a, netdev)
	}
	return g.Must(ctx, b.String())
}
