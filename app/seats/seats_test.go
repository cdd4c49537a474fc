// SPDX-License-Identifier: Apache-2.0

package seats

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestTake plays who comes to three seats, and checks who gets one and who goes. A word is the peer that comes; what
// follows "=" is the client that goes for it, or "no" when it gets none.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		yields bool
		play   string
	}{
		{"room", false, "a b c"},
		{"the oldest goes", true, "a b c d=a0 e=b0"},
		{"the oldest of a crowd goes", true, "one a a b=a0"},
		{"a crowd takes its own places", true, "me a a a=a0 a=a1 a=a2"},
		{"known peers keep theirs", false, "a b c d=no"},
		{"a peer keeps its own", false, "a a a a=no"},
		{"a crowd gives to others, until all have as many", false, "a a a b=a0 b=no a=no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, came, left := New(3, c.yields), map[string]int{}, ""
			for _, step := range strings.Fields(c.play) {
				peer, want, _ := strings.Cut(step, "=")
				client := fmt.Sprint(peer, came[peer])
				came[peer]++
				if _, ok := s.Take(peer, func() { left = client }); !ok {
					left = "no"
				}
				if left != want {
					t.Errorf("%s of %q: %q goes, want %q", step, c.play, left, want)
				}
				left = ""
			}
		})
	}
}

// at is a connection from an address.
type at struct {
	net.Conn
	address string
}

func (a at) RemoteAddr() net.Addr { return a }
func (at) Network() string        { return "tcp" }
func (a at) String() string       { return a.address }

// TestPeerOf checks which addresses are one peer's: all of a subnet that one host can have.
func TestPeerOf(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.9.0.1:1", "10.9.0.1:2", true}, {"10.9.0.1:1", "10.9.0.2:1", false}, {"10.9.0.1:1", "[::ffff:10.9.0.1]:1", true},
		{"[fd09::1]:1", "[fd09::abcd:1:2:3]:2", true}, {"[fd09::1]:1", "[fd09:0:0:1::1]:1", false}, {"[fe80::1%lo]:1", "[fe80::2%lo]:1", true},
	} {
		if a, b := PeerOf(at{address: c.a}), PeerOf(at{address: c.b}); (a == b) != c.same {
			t.Errorf("%s is %s, %s is %s", c.a, a, c.b, b)
		}
	}
}

// TestLeave checks that a seat is free after its client has left, and that one who lost it does not free another's.
func TestLeave(t *testing.T) {
	s := New(1, true)
	a, _ := s.Take("a", func() {})
	b, _ := s.Take("b", func() {})
	a.Leave()
	if len(s.taken) != 1 || s.taken[0] != b {
		t.Errorf("%d seats are taken", len(s.taken))
	}
	b.Leave()
	if len(s.taken) != 0 {
		t.Error("the seat is not free")
	}
}
