// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"
	"testing"

	"causeway/app/bridge"
	"causeway/app/command/commandtest"
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

// withPorts is a bridge with two Ethernet ports, of which the second is number 2, and the fake's InfiniBand ports.
type withPorts struct{ *commandtest.Fake }

func (withPorts) EthernetPorts() []bridge.EthernetPort {
	return []bridge.EthernetPort{{Port: bridge.Port{Name: "af_packet:eth1"}}, {Port: bridge.Port{Name: "ring"}, Number: 2}}
}

// TestMirroredPort chooses a port by number and by name, with other filters beside it, and says what can be chosen.
func TestMirroredPort(t *testing.T) {
	e := &Env{Bridge: withPorts{commandtest.New(1)}}
	for _, c := range []struct {
		line, filter, infiniband, wrong string
	}{
		{line: "trace"},
		{line: "trace port 0", filter: "port 0"},
		{line: "capture to /x port 2 vlan 0 count 3", filter: "vlan 0 port 2"},
		{line: "trace port af_packet:eth1 drop any", filter: "port 0 drop any"},
		{line: "trace port ring", filter: "port 2"},
		{line: "capture port mlx5_1:1 side ib", filter: "side ib", infiniband: "mlx5_1:1"},
		{line: "trace port 1", wrong: `trace: there is no port "1"; write 0 or af_packet:eth1, 2 or ring, mlx5_0:1, mlx5_1:1`},
		{line: "capture port eth1", wrong: `capture: there is no port "eth1"; write 0 or`},
		{line: "trace port -1", wrong: `there is no port "-1"`},
	} {
		v, err := Standard.Parse(c.line)
		if err != nil {
			t.Fatal(err)
		}
		word, _, _ := strings.Cut(c.line, " ")
		m, f, err := v.Call(e, Admin, "test").mirror(word)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %s", c.line, err, c.wrong)
			}
			continue
		}
		by, _ := m.(portMirror)
		if err != nil || f.String() != c.filter || by.port != c.infiniband {
			t.Errorf("%s: %v, filter %q, InfiniBand port %q", c.line, err, f, by.port)
		}
	}
	var words []string
	for _, o := range Standard.Choices(t.Context(), e, "trace port ").Options {
		words = append(words, o.Word)
	}
	if want := []string{"PORT", "af_packet:eth1", "ring", "mlx5_0:1", "mlx5_1:1"}; !slices.Equal(words, want) {
		t.Errorf("offered %q, want %q", words, want)
	}
}
