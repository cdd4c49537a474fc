// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestDefaultMbufs checks that the packet buffers follow the workers and what they keep posted at an HCA, within half
// of the memory, and that what the file says counts.
func TestDefaultMbufs(t *testing.T) {
	const hca, subnet = "mlx5_0:1", "fabric:"
	for _, c := range []struct {
		port, workers string
		mtu, want     int
	}{
		{hca, "", 1500, 24576},
		{hca, "lcores = [1, 2]", 1500, 2 * 24576},
		{hca, "lcores = [1, 2]\nrecv_buffers = 2048", 1500, 2 * (16384 + 2048)},
		{hca, "lcores = [1, 2]\nmbufs = 5000", 1500, 5000},
		{hca, "recv_buffers = 32768", 1500, 16384 + 32768},
		{hca, "lcores = [1, 2, 3, 4]", 1500, 256 << 20 / 4800},
		{hca, "lcores = [1, 2, 3, 4]\nmemory_mib = 4096", 1500, 4 * 24576},
		{hca, "lcores = [1, 2]", 9000, 256 << 20 / 9640},
		{hca, "memory_mib = 128", 1500, 16384}, // as many as always
		{subnet, "", 1500, 16384},
		{subnet, "recv_buffers = 32768", 1500, 16384},
		{subnet, "lcores = [1, 2]", 1500, 2 * 16384},
	} {
		text := strings.Replace(small, `"fabric:"`, fmt.Sprintf("%q", c.port), 1)
		text = strings.Replace(text, "[ib]", fmt.Sprintf("mtu = %d\n[ib]", c.mtu), 1)
		if got := parseGood(t, text+"\n[workers]\n"+c.workers+"\n").Workers.Mbufs; got != c.want {
			t.Errorf("%s, MTU %d, %q: %d packet buffers, want %d", c.port, c.mtu, c.workers, got, c.want)
		}
	}
}

// TestDefaultRxDescs checks that an af_packet port's rings last longer than another's queues unless the file says, and
// that they need no packet buffers.
func TestDefaultRxDescs(t *testing.T) {
	for _, c := range []struct {
		port, workers string
		want          int
	}{
		{"ring", "", 1024},
		{"tap:dtap0", "", 1024},
		{"af_packet:eth1", "", 8192},
		{"af_packet:eth1", "rx_descs = 256", 256},
		{"af_packet:eth1", "lcores = [1, 2]\nmbufs = 2048", 8192},
	} {
		text := strings.Replace(small, `"ring"`, fmt.Sprintf("%q", c.port), 1)
		if got := parseGood(t, text+"\n[workers]\n"+c.workers+"\n").Workers.RxDescs; got != c.want {
			t.Errorf("%s, %q: %d descriptors, want %d", c.port, c.workers, got, c.want)
		}
	}
}
