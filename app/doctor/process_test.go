// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// TestOwnPath asks an administrator in software, and one that is not there.
func TestOwnPath(t *testing.T) {
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		t.Fatal(err)
	}
	port, err := f.Attach(fabric.PortConfig{Name: "bridge", GUID: 0xb})
	if err != nil {
		t.Fatal(err)
	}
	hca := fabric.NewHCA(port)
	mads := fabric.NewMADPort(hca, ib.ClassSA)
	state, err := mads.PortState()
	if err != nil {
		t.Fatal(err)
	}
	path, err := ownPath(mads)
	if err != nil || path.DLID != state.LID || path.SLID != state.LID || !path.MTU.Valid() {
		t.Errorf("%+v, %v; the port has LID %d", path, err, state.LID)
	}
	if err := errors.Join(hca.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := ownPath(silent{make(chan struct{})}); !errors.Is(err, sa.ErrTimeout) {
		t.Errorf("nobody answers: %v", err)
	}
}

// silent is a port on whose subnet nobody answers.
type silent struct{ closed chan struct{} }

func (silent) SendMAD(ib.LID, ib.SL, []byte) error { return nil }

func (s silent) ReceiveMAD([]byte) (ib.LID, ib.SL, error) {
	<-s.closed
	return 0, 0, sa.ErrClosed
}

func (silent) PortState() (ib.PortState, error) {
	return ib.PortState{Active: true, LID: 5, SMLID: 1, GID: ib.GID{0: 0xfe, 1: 0x80, 15: 1}}, nil
}

func (s silent) Close() error {
	close(s.closed)
	return nil
}

// TestEnabledIn reads answers of the kernel's: struct dcbmsg, the interface's name, and nested the priorities.
func TestEnabledIn(t *testing.T) {
	name := "\x09\x00\x01\x00eth1\x00\x00\x00\x00"
	pfc := "\x88\x00\x02\x00" + "\x08\x28\x00\x00" + strings.Repeat("\x00", 128) // pfc_cap 8, pfc_en 0x28: 3 and 5
	nested := func(kind string, attrs string) string { return string([]byte{byte(4 + len(attrs)), 0}) + kind + attrs }
	for what, c := range map[string]struct {
		answer string
		want   uint8
		ok     bool
	}{
		"PFC":         {"\x00\x15\x00\x00" + name + nested("\x0d\x80", pfc), 0x28, true},
		"not marked":  {"\x00\x15\x00\x00" + name + nested("\x0d\x00", pfc), 0x28, true},
		"ETS alone":   {"\x00\x15\x00\x00" + name + nested("\x0d\x80", "\x08\x00\x01\x00\x01\x02\x03\x04"), 0, false},
		"no IEEE":     {"\x00\x15\x00\x00" + name, 0, false},
		"cut":         {"\x00\x15\x00\x00" + nested("\x0d\x80", "\x05\x00\x02\x00\x08\x00\x00\x00"), 0, false},
		"a bad one":   {"\x00\x15\x00\x00\xff\xff\x0d\x80", 0, false},
		"no header":   {"\x00", 0, false},
		"nothing":     {"", 0, false},
		"header only": {"\x00\x15\x00\x00", 0, false},
	} {
		if got, ok := enabledIn([]byte(c.answer)); got != c.want || ok != c.ok {
			t.Errorf("%s: %#x, %v; want %#x, %v", what, got, ok, c.want, c.ok)
		}
	}
}

func TestLists(t *testing.T) {
	for text, want := range map[string][]int{"0-3,6": {0, 1, 2, 3, 6}, "5": {5}, "": nil, "(null)": nil, "2-1": nil, "0-x": nil, "7, 9-10": {7, 9, 10}} {
		if got := cpus(text); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for text, list := range map[string][]int{"0-3,6": {0, 1, 2, 3, 6}, "5": {5}, "": nil, "1,3,5-6": {1, 3, 5, 6}} {
		if got := cpuList(list); got != text {
			t.Errorf("%v is %q, want %q", list, got, text)
		}
	}
	if n := len(cpus("0-4000000000")); n > 8192 {
		t.Errorf("a list of %d CPUs", n)
	}
}

// TestText compares with what people and shells are to get.
func TestText(t *testing.T) {
	long := strings.Repeat("word ", 30)
	set := func(group, check string, f Finding) Finding {
		f.Group, f.Check = group, check
		return f
	}
	found := Findings{
		set("cpu", "a", ok("one")), set("cpu", "b", hint("a hint", "echo hint")), set("cpu", "c", bad(Warn, "a warning\x1b", "echo warn", "# by hand")),
		set("cpu", "d", bad(Fail, long, "echo fail")),
		set("clock", "e", ok("two")), set("clock", "f", ok("three")), set("mtu", "g", ok("%s", long)), set("mtu", "h", ok("more")),
		set("mtu", "h", ok("yet more")),
	}
	var b bytes.Buffer
	if err := found.WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	want := "cpu        error    " + strings.Repeat("word ", 17) + "word\n                    " + strings.Repeat("word ", 11) + "word\n" + `                    fix: echo fail
           warning  a warning?
                    fix: echo warn
                    fix: by hand
           hint     a hint
                    fix: echo hint
           ok       one
clock      ok       two; three
mtu        ok       g, h (-all says more)

1 error, 1 warning, 1 hint
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
	b.Reset()
	if err := found.WriteText(&b, true); err != nil || !strings.Contains(b.String(), "clock      ok       two\n           ok       three\n") &&
		!strings.Contains(b.String(), "clock      ok       two\n                    three\n") {
		t.Errorf("%v\n%s", err, &b)
	}
	b.Reset()
	if err := found.WriteFixes(&b); err != nil || b.String() != "echo warn\n# by hand\necho fail\n" {
		t.Errorf("%v\n%s", err, &b)
	}
	text, err := json.Marshal(found[2])
	if want := `{"group":"cpu","check":"c","verdict":"warn","level":"warning","found":"a warning\u001b","fix":["echo warn","# by hand"]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}
