// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"testing"

	"causeway/lcore"
)

// onPorts mirrors packets: a frame, the message that it is sent as, and messages that two ports bring.
type onPorts struct{}

func (onPorts) Mirror(_ context.Context, _ lcore.Filter, _ int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	for _, p := range []lcore.MirroredPacket{
		{Packet: 1}, {Packet: 1, IB: &lcore.MirroredIB{Ports: "a+b"}}, {Packet: 2, IB: &lcore.MirroredIB{Ports: "a"}}, {Packet: 2},
		{Packet: 3, IB: &lcore.MirroredIB{Ports: "b"}}, {Packet: 3}, {Packet: 4, IB: &lcore.MirroredIB{Ports: "ab"}},
	} {
		if !see(p) {
			break
		}
	}
	return 5, nil
}

// TestPortMirror shows what one of two ports brings and sends, from where that is known.
func TestPortMirror(t *testing.T) {
	for port, want := range map[string][]uint64{"a": {1, 2, 2}, "b": {1, 3, 3}, "c": nil} {
		var got []uint64
		missed, err := portMirror{onPorts{}, port}.Mirror(t.Context(), lcore.Filter{}, 0, func(p lcore.MirroredPacket) bool {
			got = append(got, p.Packet)
			return true
		})
		if err != nil || missed != 5 || !slices.Equal(got, want) {
			t.Errorf("port %s: %v, %d missed, %v; want %v", port, got, missed, err, want)
		}
	}
}
