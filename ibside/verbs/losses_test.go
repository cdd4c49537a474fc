// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestLosses checks that a device's counters are those since the port was opened, wherever the kernel has them, and
// that what a device does not count is not 0 but not there.
func TestLosses(t *testing.T) {
	root := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(root, "class/infiniband/mlx5_0", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ports/2/counters/symbol_error", "7\n")
	write("ports/2/counters/port_rcv_errors", "65535\n")
	write("ports/2/counters/VL15_dropped", "N/A (no PMA)\n")
	write("ports/2/counters/port_xmit_data", "99\n")
	write("ports/1/hw_counters/out_of_buffer", "5\n")
	write("ports/2/hw_counters/out_of_buffer", "100\n")
	write("hw_counters/rx_discards", "3\n")
	l := openLosses(root, &Config{Device: "mlx5_0", Port: 2})
	write("ports/2/counters/port_rcv_errors", "4\n") // reset meanwhile
	write("ports/2/hw_counters/out_of_buffer", "142\n")
	write("hw_counters/send_err", "2\n")
	want := map[string]uint64{"symbol_error": 0, "port_rcv_errors": 4, "out_of_buffer": 42, "rx_discards": 0, "send_err": 2}
	if got := l.since(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	none := openLosses(root, &Config{Device: "rxe0", Port: 1})
	if got := none.since(); len(got) != 0 {
		t.Errorf("a device that counts nothing: %v", got)
	}
}
