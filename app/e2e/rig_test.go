// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stepTime ends a step that hangs. Emulated guests beside another lane have taken more than 40 s for one that does not.
const stepTime = 2 * time.Minute

// TestGuestRun checks what all other tests rely on: output, exit codes, concurrency, and that a command ends with its
// context.
func TestGuestRun(t *testing.T) {
	_, a, _ := theRig(t)
	out, exit, err := a.Run(within(t, stepTime), "echo to stdout; echo to stderr >&2; exit 3")
	if out != "to stdout\nto stderr\n" || exit != 3 || err != nil {
		t.Errorf("Run: %q, exit %d, %v", out, exit, err)
	}
	// The first waits for a file that the second makes.
	first, err := a.Start("until [ -e /tmp/made ]; do sleep .05; done; rm /tmp/made; echo seen")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Must(within(t, stepTime), "touch /tmp/made"); err != nil {
		t.Error(err)
	}
	if out, exit, err := first.Wait(within(t, stepTime)); out != "seen\n" || exit != 0 || err != nil {
		t.Errorf("two commands at once: %q, exit %d, %v", out, exit, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, _, err := a.Run(short, "sleep 4321 & sleep 4322"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command longer than its context: %v", err)
	}
	if out, _, _ := a.Run(within(t, stepTime), "ps | grep -c '[s]leep 432'"); out != "0\n" {
		t.Errorf("commands left after their context: %q", out)
	}
}

// TestBiggerGuest boots a guest with two RDMA devices, two CPUs and a folder of this machine, which the bridge needs to
// run in a guest.
func TestBiggerGuest(t *testing.T) {
	r, a, _ := theRig(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("from outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	guests, err := r.Boot(t.Context(), GuestConfig{Name: "big", Share: dir, CPUs: 2, MiB: 512, NICs: []NIC{
		{RDMA: true, Addrs: []string{"10.9.0.3/24"}},
		{RDMA: true, MTU: hostMTU, Addrs: []string{"10.8.0.3/24"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := guests[0]
	defer c.Stop()
	out, exit, err := c.Run(within(t, stepTime), "cat /host/note; nproc; ibv_devinfo | grep -E 'hca_id|active_mtu' | tr -s '\t ' ' '")
	want := "from outside2\nhca_id: rxe0\n active_mtu: 1024 (3)\nhca_id: rxe1\n active_mtu: 4096 (5)\n"
	if out != want || exit != 0 || err != nil {
		t.Errorf("%q, exit %d, %v; want %q", out, exit, err, want)
	}
	if _, err := PingPong(within(t, stepTime), Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: c, IP: "10.9.0.3"}, Exchange{Count: 2, Sizes: "64"}); err != nil {
		t.Error(err)
	}
}

// peers returns A and B by their addresses of one kind.
func peers(a, b *Guest, kind string) (Peer, Peer) {
	switch kind {
	case "v6":
		return Peer{Guest: a, IP: "fd09::1"}, Peer{Guest: b, IP: "fd09::2"}
	case "v6 link local":
		return Peer{Guest: a, IP: linkLocal(a, 0), Netdev: "eth0"}, Peer{Guest: b, IP: linkLocal(b, 0), Netdev: "eth0"}
	case "vlan":
		return Peer{Guest: a, IP: "10.100.0.1"}, Peer{Guest: b, IP: "10.100.0.2"}
	case "vlan v6":
		return Peer{Guest: a, IP: "fd64::1"}, Peer{Guest: b, IP: "fd64::2"}
	}
	return Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: b, IP: "10.9.0.2"}
}

// TestGuestToGuest tests the rig with the two kernels alone, without Causeway: a failure here is not the bridge's
// fault.
func TestGuestToGuest(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "the two kernels alone, without Causeway")
	for _, kind := range []string{"v4", "v6", "v6 link local", "vlan", "vlan v6"} {
		t.Run(kind, func(t *testing.T) {
			server, client := peers(a, b, kind)
			events, err := PingPong(within(t, stepTime), server, client, Exchange{Count: 6, Sizes: "0,1,63,64,1024,4096", Args: "--imm 7"})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range Only(events, "received") {
				if !e.Intact || !e.WithGRH || !e.WithImm || e.Imm != 7 {
					t.Errorf("received %+v", e)
				}
				proof.add(1)
			}
		})
	}
	t.Run("mckey", func(t *testing.T) {
		receiver, sender := peers(a, b, "v4")
		if err := Mckey(within(t, stepTime), receiver, sender, "239.1.2.3"); err != nil {
			t.Error(err)
		}
	})
	t.Run("udaddy", func(t *testing.T) {
		server, client := peers(a, b, "v4")
		if err := Udaddy(within(t, stepTime), server, client, ""); err != nil {
			t.Error(err)
		}
	})
}

// TestChecksCanFail: a rig that accepts everything proves nothing. udend must report that there is no reply from a QPN
// that nobody has, and no message when nobody sends.
func TestChecksCanFail(t *testing.T) {
	_, a, b := theRig(t)
	server, client := peers(a, b, "v4")
	listener, err := server.StartUDEnd(within(t, stepTime), "--ip 10.9.0.1 --count 1 --seconds 2 recv")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RunUDEnd(within(t, stepTime), "--ip 10.9.0.2 --to 10.9.0.1 --qpn 0x800000 --seconds 1 pingpong")
	if err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("a ping to nobody: %v", err)
	}
	if _, exit, err := listener.Wait(within(t, stepTime)); exit != 1 || err != nil {
		t.Errorf("a listener that nobody sends to: exit %d, %v", exit, err)
	}
}
