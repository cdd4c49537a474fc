// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHistoryFile checks that lines are kept for their user alone, that there are never many, and that what is no file
// is left alone.
func TestHistoryFile(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	h, path := UserHistory(), filepath.Join(state, "causeway", "history")
	if all := h.Lines(); len(all) > 0 {
		t.Errorf("%q before the first", all)
	}
	h.Add("show hosts")
	h.Add("two\nlines")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	UserHistory().Add("show nodes") // another session
	if all := h.Lines(); !slices.Equal(all, []string{"show hosts", "show nodes"}) {
		t.Errorf("%q", all)
	}
	for i := range 5 * historyMost {
		h.Add(fmt.Sprint("line ", i))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() > 3*historyMost*10 {
			t.Fatalf("%v, %v", info, err)
		}
	}
	if all := UserHistory().Lines(); len(all) != historyMost || all[historyMost-1] != fmt.Sprint("line ", 5*historyMost-1) {
		t.Errorf("%d lines, %q", len(all), all)
	}
	// Another program's.
	if err := os.WriteFile(path, []byte(strings.Repeat(strings.Repeat("x", 9999)+"\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := h.Lines(); len(all) > historyMost {
		t.Errorf("%d lines", len(all))
	}
	if left, err := filepath.Glob(filepath.Join(state, "causeway", ".history*")); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(state, "other")
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	h.Add("show hosts")
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("a link was followed: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "")
	UserHistory().Add("show hosts")
	if _, err := os.Stat("relative"); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// TestHistoryGiven checks that a session has the lines that a client sends, and gives it its own, without secrets.
func TestHistoryGiven(t *testing.T) {
	r := newRig(t)
	c := r.dial("unix")
	c.send("\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f" + string(naws(100, 40)) + "\xff\xfb\xc9")
	c.await("\xff\xfd\xc9")
	c.await("test# ")
	c.send(string(historyLine("show drops")) + string(historyLine("show \x1b[31mred")) + string(historyLine("show version")))
	c.send("\x1b[A") // up
	c.await("show version")
	c.send("\x1b[A")
	c.await("drops")
	c.send("\x15history\r\x00")
	text := c.await("test# ")
	if !strings.Contains(text, "show drops\r\nshow version\r\nhistory\r\n") || strings.Contains(text, "red") || !strings.Contains(text, string(historyLine("history"))) {
		t.Errorf("%q", text)
	}
	for _, secret := range []string{"login " + token, "logi x y z", "explain from roce 10.9.0.1 qpn 1 to 239.1.2.3 qk 0x77", "explain from roce qpn qkey 0x77"} {
		c.send(secret + "\r\x00")
		if text := c.await("test# "); strings.Contains(text, "\xff\xfa\xc9") {
			t.Errorf("%s is to be kept: %q", secret, text)
		}
	}
	c.send("show hosts | match \xc3\xa4\r\x00quit\r\x00")
	if text := c.rest(); !strings.Contains(text, "\xff\xfa\xc9show hosts | match \xc3\xa4\xff\xf0") || !strings.Contains(text, "\xff\xfa\xc9quit\xff\xf0") {
		t.Errorf("%q", text)
	}
	plain := r.telnetClient(100, 40)
	plain.send("show version\r\x00")
	if text := plain.await("test> "); strings.Contains(text, "\xff\xfa\xc9") {
		t.Errorf("a client that has no history got %q", text)
	}
}

// TestSearch checks Ctrl-R: what is found while a part is typed, older ones, a line that is run, edited or left as it
// was.
func TestSearch(t *testing.T) {
	c := newRig(t).telnetClient(100, 40)
	for _, line := range []string{"show version", "show hosts 10.9.0.1", "show drops"} {
		c.send(line + "\r\x00")
		c.await("test> ")
	}
	c.send("\x12sho") // in one packet, as an impatient typist's
	c.await(`search "sho": show drops`)
	c.send("\x12")
	c.await(`search "sho": show hosts 10.9.0.1`)
	c.send("\x12")
	c.await(`search "sho": show version`)
	c.send("\x12")
	c.await(`search "sho", no other: show version`)
	c.send("\x7f\x7f\x7fhosts\r\x00") // another part; Enter runs what was found
	c.await(`search "hosts": show hosts 10.9.0.1`)
	if text := c.await("\r\ntest> "); !strings.Contains(text, "test> show hosts 10.9.0.1") || !strings.Contains(text, "ADDRESS") {
		t.Errorf("%q", text)
	}
	c.send("show wor\x12drops") // a line that is being edited
	c.await(`search "drops": show drops`)
	c.send("\x07")
	if text := c.await("test> show wor"); strings.Contains(text, "drops") {
		t.Errorf("%q", text)
	}
	c.send("kers\r\x00")
	c.await("WORKER")
	c.await("test> ")
	c.send("\x12version\x05 | count\r\x00") // Ctrl-E: edited further
	c.await("count  5")
	c.await("test> ")
	c.send("\x12\x03") // Ctrl-C
	c.await("test> ")
	c.send("show version\r\x00")
	c.await("running for")
}
