// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"testing"

	"causeway/config"
)

// TestForJournal checks that a line for the journal has its priority, and the journal's time alone.
func TestForJournal(t *testing.T) {
	for _, c := range []struct{ format, want string }{
		{"text", "<3>level=ERROR msg=link_down port=eth1\n<4>level=WARN msg=odd note=\"a b\"\n<6>level=INFO msg=ready\n<7>level=DEBUG msg=asked\n"},
		{"json", `<3>{"level":"ERROR","msg":"link_down","port":"eth1"}` + "\n" + `<4>{"level":"WARN","msg":"odd","note":"a b"}` + "\n" +
			`<6>{"level":"INFO","msg":"ready"}` + "\n" + `<7>{"level":"DEBUG","msg":"asked"}` + "\n"},
	} {
		var out bytes.Buffer
		log, k := New(config.Log{Level: "debug", Format: c.format}, &out)
		k.journal = true
		log.Error("link_down", "port", "eth1")
		log.Warn("odd", "note", "a b")
		log.Info("ready")
		log.Debug("asked")
		if out.String() != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.format, out.String(), c.want)
		}
		if kept := k.Recent(1); len(kept) != 1 || !bytes.Contains([]byte(kept[0]), []byte("time")) {
			t.Errorf("%s: the console has %q", c.format, kept)
		}
	}
	if other := []byte("etcd: something\n"); !bytes.Equal(forJournal(other), other) {
		t.Errorf("a line of another form has become %q", forJournal(other))
	}
}
