// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"causeway/fleet/bfd"
)

var (
	control = append([]byte{0x20, 0x40, 3, bfd.Len, 0, 0, 0, 9}, make([]byte, 16)...) // Down, of session 9
	east    = newIdentity("east", 7, bytes.Repeat([]byte{5}, SecretLen))
)

// messages are what is sent, without its HMAC.
var messages = []struct {
	name string
	hex  string
	want message
}{
	{"without a word", hexOf(control) + "01 01 0200 73c1a0d88ecf9b2f 0000000000000003 0000000000000004 0000000000000005 00",
		message{control, InfiniBand, [Fabrics]uint8{2, 0}, 3, 4, 5, nil}},
	{"with one", hexOf(control) + "01 00 00ff 73c1a0d88ecf9b2f 8000000000000000 ffffffffffffffff 0102030405060708 05 68656c6c6f",
		message{control, Ethernet, [Fabrics]uint8{0, 255}, 1 << 63, 1<<64 - 1, 0x0102030405060708, []byte("hello")}},
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

// TestMessages: the bytes of messages, both ways.
func TestMessages(t *testing.T) {
	for _, c := range messages {
		want, err := hex.DecodeString(strings.ReplaceAll(strings.Replace(c.hex, "73c1a0d88ecf9b2f", hexOf(be(east.fleet)), 1), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b := east.seal(&c.want)
		if signed := len(b) - macLen; !bytes.Equal(b[:signed], want) || !bytes.Equal(b[signed:], east.sign(want)) || len(b) > MaxMessage {
			t.Errorf("%s: %x\nand not %x", c.name, b, want)
		}
		if m, why := east.open(b, c.want.fabric, c.want.to); why != taken || !reflect.DeepEqual(*m, c.want) {
			t.Errorf("%s: %s, %+v\nand not %+v", c.name, reasonNames[why], m, c.want)
		}
	}
}

func be(n uint64) (b []byte) {
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}

// TestEveryBit: a message of which any bit is another is not taken, nor one that is shorter or longer.
func TestEveryBit(t *testing.T) {
	m := messages[1].want
	b := east.seal(&m)
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, why := east.open(b, m.fabric, m.to); why == taken {
			t.Errorf("with bit %d of byte %d it is taken", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for n := range b {
		if _, why := east.open(b[:n], m.fabric, m.to); why != malformed {
			t.Errorf("%d bytes of it: %s", n, reasonNames[why])
		}
	}
	if _, why := east.open(append(b, 0), m.fabric, m.to); why != malformed {
		t.Errorf("with a byte more: %s", reasonNames[why])
	}
}

// FuzzOpen: whatever comes, nothing panics, and what is taken is what seal makes of it.
func FuzzOpen(f *testing.F) {
	for _, c := range messages {
		f.Add(east.seal(&c.want))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= macLen { // or else none were taken
			signed := len(b) - macLen
			b = append(b[:signed:signed], east.sign(b[:signed])...)
		}
		if m, why := east.open(b, Ethernet, 1<<64-1); why == taken && !bytes.Equal(east.seal(m), b) {
			t.Errorf("%x is %+v, which is %x", b, m, east.seal(m))
		}
	})
}

// counted are the reasons that were provoked.
type counted map[string]bool

// by checks that something is counted by one reason, and by no other.
func (c counted) by(t *testing.T, n *node, why reason, provoke func()) {
	t.Helper()
	name := reasonNames[why]
	c[name] = true
	before := n.Dropped()
	provoke()
	after := n.Dropped()
	for other, was := range before {
		if more := after[other] - was; (other == name) != (more > 0) {
			t.Errorf("%s: %d more of %s", name, more, other)
		}
	}
}

// TestReasons: each reason is counted, and nothing but it.
func TestReasons(t *testing.T) {
	c := counted{}
	fleet(t, 1, "ab", func(r *rig) { c.messages(t, r) })
	fleet(t, 1, "ab", func(r *rig) { c.queues(t, r) })
	n := &node{r: newRig(t, 0)}
	var err error
	if n.Peers, err = New(Config{Fleet: "east", Name: "a", Store: n.r, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	c.by(t, n, notJoined, func() { n.Received(Ethernet, nil) })
	for why := taken + 1; why < reasons; why++ {
		if !c[reasonNames[why]] {
			t.Errorf("%s is not tested", reasonNames[why])
		}
	}
}

// good is a message from b to a that is taken but for its BFD packet.
func (r *rig) good() message {
	return message{control: control, from: r.members["b"].config.Process, to: r.members["a"].config.Process, count: 1 << 40}
}

// messages gives a what it does not take.
func (c counted) messages(t *testing.T, r *rig) {
	a := r.members["a"]
	id := a.identity.Load()
	give := func(id *identity, change func(m *message)) func() {
		return func() {
			m := r.good()
			change(&m)
			a.Received(Ethernet, id.seal(&m))
			synctest.Wait()
		}
	}
	nothing := func(*message) {}
	good := r.good()
	c.by(t, a, malformed, func() { a.Received(Ethernet, id.seal(&good)[1:]) })
	c.by(t, a, otherVersion, func() {
		data := id.seal(&good)
		data[versionAt]++
		a.Received(Ethernet, data)
	})
	c.by(t, a, otherFabric, give(id, func(m *message) { m.fabric = InfiniBand }))
	c.by(t, a, otherFleet, give(newIdentity("west", 7, id.secret), nothing))
	c.by(t, a, otherFleet, give(newIdentity("east", 8, id.secret), nothing))
	c.by(t, a, otherReceiver, give(id, func(m *message) { m.to++ }))
	c.by(t, a, unsigned, give(&identity{id.fleet, make([]byte, SecretLen)}, nothing))
	c.by(t, a, unknownSender, give(id, func(m *message) { m.from++ }))
	c.by(t, a, replayed, give(id, func(m *message) { m.count = 1 }))
	c.by(t, a, badBFD, give(id, func(m *message) { m.control = make([]byte, bfd.Len) }))
}

// queues gives a more than it takes, and has it send what its way does not.
func (c counted) queues(t *testing.T, r *rig) {
	a := r.members["a"]
	c.by(t, a, queueFull, func() {
		a.Peers.mu.Lock() // Run's goroutine takes no more than one
		defer a.Peers.mu.Unlock()
		m := r.good()
		for range 2 + cap(a.inbox) {
			a.Received(Ethernet, a.identity.Load().seal(&m))
		}
		for len(a.inbox) > 0 {
			<-a.inbox
		}
	})
	r.members["b"].Reach(Ethernet, "nowhere")
	synctest.Wait()
	c.by(t, a, unsent, func() {
		if err := a.Word([]byte("x")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
