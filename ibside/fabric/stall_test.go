// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"path/filepath"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// TestStall has the switch take nothing from a port of another process, and then again; and a subnet end while it does not.
func TestStall(t *testing.T) {
	const guid = ib.GUID(0x57)
	socket := filepath.Join(t.TempDir(), "subnet.sock")
	f, err := New(Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	port, err := Dial(socket, guid, "stalled")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	stall := func(on bool) {
		if err := f.Stall(guid, on); err != nil {
			t.Fatal(err)
		}
	}
	send := func() {
		const packets = 3 // the first one may be read by whoever was reading already
		for range packets {
			port.Send([]byte("no packet"))
		}
		time.Sleep(20 * time.Millisecond)
		if port.Sent() {
			t.Error("all was taken from a port that is stalled")
		}
	}
	stall(true)
	send()
	stall(false)
	for end := time.Now().Add(waitLimit); !port.Sent(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is taken any more")
		}
	}
	stall(true)
	send()
	ended := make(chan error, 1)
	go func() { ended <- f.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(waitLimit):
		t.Error("the subnet does not end")
	}
}
