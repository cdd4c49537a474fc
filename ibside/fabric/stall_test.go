// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"path/filepath"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// TestWithhold has the switch send nothing to a port of another process, and then again: nothing is lost.
func TestWithhold(t *testing.T) {
	const guid = ib.GUID(0x57)
	socket := filepath.Join(t.TempDir(), "subnet.sock")
	f := newFabric(t, Config{Socket: socket})
	h, recv := follow(t, socket, guid), NewRecvQueue(8)
	mustQP(t, h, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
	sender := mustQP(t, attachHCA(t, f, PortConfig{Name: "sender", GUID: 8}), QPConfig{QKey: testQKey, Recv: NewRecvQueue(1)})
	withhold := func(on bool) {
		if err := f.Withhold(guid, on); err != nil {
			t.Fatal(err)
		}
	}
	const messages = 5
	for range 2 {
		withhold(true)
		for range messages {
			if cause := sender.Send(&Send{AH: AH{DLID: h.Info().LID}, DestQP: testQPN, QKey: testQKey}); cause != "" {
				t.Fatal(cause)
			}
		}
		time.Sleep(20 * time.Millisecond)
		if n := recv.Len(); n != 0 {
			t.Errorf("%d messages came to a port to which nothing is sent", n)
		}
		withhold(false)
		waitFor(t, "messages", func() bool { return recv.Len() == messages })
		recv.Poll(make([]Received, messages))
	}
	if err := f.Withhold(0x99, true); err == nil {
		t.Error("it is withheld from a port that is not there")
	}
}

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
