// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"causeway/ibside/ib"
)

// TestPKeyLost changes a port's P_Key table under the bridge, whose P_Key is the second.
func TestPKeyLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		pkeys []ib.PKey
		lost  bool
	}{
		{"the same", []ib.PKey{0xffff, 0x8001}, false},
		{"one more", []ib.PKey{0xffff, 0x8001, 0x8002}, false},
		{"another first", []ib.PKey{0x7fff, 0x8001}, false},
		{"moved", []ib.PKey{0xffff, 0x8002, 0x8001}, true},
		{"a limited member", []ib.PKey{0xffff, 0x0001}, true},
		{"gone", []ib.PKey{0xffff}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []EventKind
			var text bytes.Buffer
			d := &Door{
				cfg: Config{Device: "mlx5_0", Port: 1, PKey: 0x8001, OnEvent: func(e Event) { seen = append(seen, e.Kind) }},
				log: slog.New(slog.NewTextHandler(&text, nil)), port: PortInfo{PKeys: c.pkeys, PKeyIndex: 1},
			}
			d.checkPKey()
			if lost := slices.Equal(seen, []EventKind{EventPKeyLost}); lost != c.lost || !lost && seen != nil {
				t.Errorf("events %v; want the loss: %v", seen, c.lost)
			}
			if n := strings.Count(text.String(), "msg=pkey_lost port=mlx5_0:1 pkey=0x8001 index=1"); n != 0 != c.lost || n > 1 {
				t.Errorf("the log has it %d times:\n%s", n, text.String())
			}
		})
	}
}
