// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func init() { tasks["forged"] = taskForged; tasks["forged-sources"] = taskForgedSources }

// The attack: packets a second of ever new addresses and QPNs, and how many in all. A newcomer is to be served within a
// second of it; time is counted in its packets, for a busy machine takes longer for them.
const (
	attackRate  = 50_000
	attackTotal = 75_000
	attackTurn  = 50 // packets between two looks at what the bridge has sent
	attackTick  = 38 // turns between two looks at whether management follows: fewer frames than one host may punt
	attackTable = 256
	attackHosts = 1024
)

// A talker is a RoCE host that exchanges messages with the echo. Like a kernel, it answers ARP.
type talker struct {
	ip   netip.Addr
	mac  frame.MAC
	qpns ib.QPN // how many queue pairs it has

	sent, answered uint64
	asked          bool // the bridge has asked it for its MAC address
}

func newTalker(n byte, qpns ib.QPN) *talker {
	return &talker{ip: netip.AddrFrom4([4]byte{10, 9, 0, n}), mac: frame.MAC{2, 0, 0, 0, 0, n}, qpns: qpns}
}

// messages returns a message of each queue pair.
func (x *talker) messages(b *Bridge) (frames [][]byte) {
	for qpn := range x.qpns {
		x.sent++
		p := message(b, nodeIP, 0x77, int(x.sent))
		p.Src, p.SrcIP, p.SrcQP = x.mac, x.ip, 0x100+qpn
		frames = append(frames, p.AppendTo(nil))
	}
	return frames
}

// arp is a request for the node's address, or with to an answer.
func (x *talker) arp(to frame.MAC) []byte {
	f := frame.ARPFields{Op: frame.ARPRequest, SHA: x.mac, SPA: x.ip, TPA: nodeIP}
	if to != frame.Broadcast {
		f.Op, f.THA, f.TPA = frame.ARPReply, to, netip.MustParseAddr("10.9.0.254")
	}
	return frame.AppendARP(nil, frame.Link{MAC: x.mac}, to, f)
}

// A siege is a bridge under attack.
type siege struct {
	*Bridge
	talkers []*talker
	forged  int // packets so far
	turns   int // of the attack
	began   time.Time
	noise   func(s *siege, i int) []byte // nil: forged addresses
	clock   *talker                      // see tick
}

// besiegeable is a configuration whose port holds what management may answer at once.
func besiegeable(workers string) string {
	return strings.NewReplacer("tx_descs = 512", "tx_descs = 4096", "mbufs = 8192", "mbufs = 16384", "memory_mib = 128", "memory_mib = 192").Replace(wide(workers))
}

// receive takes what has come for the hosts: they answer requests for their MAC address, and count the echo's answers.
func (s *siege) receive() error {
	var m [32]dpdk.Mbuf
	for n := -1; n != 0; {
		n = s.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:])
		for _, x := range m[:n] {
			b := append([]byte(nil), x.Bytes()...)
			x.Free()
			if err := s.received(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *siege) received(b []byte) error {
	f, fault := frame.Open(b)
	if fault != "" {
		return fmt.Errorf("a frame: %s", fault)
	}
	if f.Type == frame.TypeARP {
		a, _ := frame.ParseARP(f.Eth.Src(), f.Payload)
		if a.Op == frame.ARPReply && s.clock != nil && a.TPA == s.clock.ip {
			s.clock.answered++
		}
		for _, x := range s.talkers {
			if a.Op == frame.ARPRequest && a.TPA == x.ip && (f.Eth.Dst() == x.mac || f.Eth.Dst() == frame.Broadcast) {
				x.asked = true
				return s.enter(x.arp(f.Eth.Src()))
			}
		}
		return nil
	}
	p, err := roce.Parse(b)
	if err != nil {
		return nil // a report
	}
	for _, x := range s.talkers {
		if _, verdict := stamp.Read(p.Payload); p.DstIP == x.ip && p.Dst == x.mac && verdict == stamp.Whole {
			x.answered++
		}
	}
	return nil
}

// forge is the next packet of the attack. A quarter goes to the echo, which answers.
func (s *siege) forge() []byte {
	s.forged++
	if s.noise != nil {
		return s.noise(s, s.forged)
	}
	p := message(s.Bridge, nodeIP, 0x78, s.forged)
	if s.forged%4 == 0 {
		p.DestQP = 0x77
	}
	i := uint32(s.forged) * 2654435761 // each address once in 2³² packets, in no order
	p.SrcIP = netip.AddrFrom4([4]byte{10, 9, 16 + byte(i>>24)%200, byte(i>>16)%250 + 1})
	p.Src = frame.MAC{2, 9, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
	p.SrcQP = ib.QPN(0x1000 + i%0x800000)
	return p.AppendTo(nil)
}

// attack goes on for so many packets, or until done says so; a known host's turn comes with each turn of the attack.
func (s *siege) attack(packets int, known []*talker, done func() bool) (took int, err error) {
	first := s.forged
	for ; s.forged-first < packets && !done(); s.turns++ {
		for range attackTurn {
			if err := s.enter(s.forge()); err != nil {
				return 0, err
			}
		}
		if s.turns%4 == 0 && len(known) > 0 {
			if err := s.enter(known[s.turns/4%len(known)].messages(s.Bridge)...); err != nil {
				return 0, err
			}
		}
		if err := s.receive(); err != nil {
			return 0, err
		}
		if s.turns%attackTick == attackTick-1 {
			if err := s.tick(); err != nil {
				return 0, err
			}
		}
		time.Sleep(time.Until(s.began.Add(time.Duration(s.forged) * time.Second / attackRate)))
	}
	return s.forged - first, nil
}

// tick waits until management has taken all that was punted before: on a busy machine the attack is as slow as what it
// attacks.
func (s *siege) tick() error {
	if s.clock == nil {
		s.clock = newTalker(99, 0)
	}
	s.clock.answered = 0
	var asked time.Time
	for deadline := time.Now().Add(time.Minute); s.clock.answered == 0; time.Sleep(50 * time.Microsecond) {
		if time.Since(asked) > 200*time.Millisecond { // again: the answer may find no room among others
			asked = time.Now()
			if err := s.enter(s.clock.arp(frame.Broadcast)); err != nil {
				return err
			}
		}
		if err := s.receive(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("an ARP request is not answered; counted %+v", s.Counters().Punt)
		}
	}
	return nil
}

func never() bool { return false }

// served lets a newcomer send until all its queue pairs are answered, and returns after how many packets of the attack
// they are. One that is polite asks for the node's address first.
func (s *siege) served(x *talker, polite bool, known []*talker) (int, error) {
	s.talkers = append(s.talkers, x)
	begin := s.forged
	if polite {
		if err := s.enter(x.arp(frame.Broadcast)); err != nil {
			return 0, err
		}
		if _, err := s.attack(attackRate, known, func() bool { return x.asked }); err != nil {
			return 0, err
		}
	}
	for x.answered < uint64(x.qpns) {
		if s.forged-begin > attackRate {
			return 0, fmt.Errorf("%v is not served within a second of the attack: %d messages, %d answers, was asked: %t; counted %v", x.ip, x.sent, x.answered,
				x.asked, s.Counters().Direction[lcore.RoCEToIB].Drops)
		}
		if err := s.enter(x.messages(s.Bridge)...); err != nil {
			return 0, err
		}
		if _, err := s.attack(attackRate/100, known, func() bool { return x.answered >= uint64(x.qpns) }); err != nil {
			return 0, err
		}
	}
	return s.forged - begin, nil
}

// await waits until the known hosts have all their answers.
func (s *siege) await(known []*talker) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if err := s.receive(); err != nil {
			return err
		}
		lost := uint64(0)
		for _, x := range known {
			lost += x.sent - x.answered
		}
		if lost == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("known hosts have lost %d messages; counted %v", lost, s.Counters().Direction)
		}
	}
}

// besieged attacks a bridge that knows some hosts, while newcomers come.
func (s *siege) besieged() (string, error) {
	var known []*talker
	for n := range byte(8) {
		known = append(known, newTalker(20+n, 4))
	}
	s.talkers = append(s.talkers, known...)
	for _, x := range known {
		if err := s.enter(append([][]byte{x.arp(frame.Broadcast)}, x.messages(s.Bridge)...)...); err != nil {
			return "", err
		}
	}
	if err := s.await(known); err != nil {
		return "", err
	}
	s.began = time.Now()
	if _, err := s.attack(attackTotal/3, known, never); err != nil { // until all is full
		return "", err
	}
	if n := s.Status(); n.ProxyQPs > attackTable || n.Hosts > attackHosts {
		return "", fmt.Errorf("%d proxy QPs, %d hosts", n.ProxyQPs, n.Hosts)
	}
	said := ""
	for _, c := range []struct {
		what   string
		x      *talker
		polite bool
	}{{"one with 40 queue pairs", newTalker(40, 40), true}, {"one that has sent no ARP", newTalker(41, 1), false}} {
		took, err := s.served(c.x, c.polite, known)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.what, err)
		}
		said += fmt.Sprintf("%s was served within %d packets of the attack, %d of %d messages; ", c.what, took, c.x.answered, c.x.sent)
	}
	if _, err := s.attack(attackTotal-s.forged, known, never); err != nil {
		return "", err
	}
	took := time.Since(s.began)
	return fmt.Sprintf("%s%d forged packets, %.0f a second", said, s.forged, float64(s.forged)/took.Seconds()), s.await(known)
}

// rest lets hosts answer when the attack is over. They ask again, as kernels do: their answer may have come when they had been
// forgotten.
func (s *siege) rest() error {
	for _, x := range s.talkers {
		if err := s.enter(x.arp(frame.Broadcast)); err != nil {
			return err
		}
	}
	time.Sleep(10 * time.Millisecond)
	return s.receive()
}

// taskForged checks that forged addresses leave known hosts all that they have, and newcomers what they need.
func taskForged() (string, error) {
	b, err := builtAfter(besiegeable(fmt.Sprintf("hosts = %d\nproxy_qps = %d\nproxy_qps_per_host = 64\nproxy_qp_rate = 2048", attackHosts, attackTable)))
	if err != nil {
		return "", err
	}
	said := ""
	err = running(b, func() (err error) {
		s := &siege{Bridge: b}
		said, err = s.besieged()
		for deadline := time.Now().Add(time.Minute); err == nil && b.Status().Counters.HostsConfirmed < 10 && time.Now().Before(deadline); {
			err = s.rest()
		}
		return err
	})
	c, n := b.Counters().Direction[lcore.RoCEToIB], b.Status().Counters
	unconfirmed, _ := lcore.DropNamed("src_unconfirmed")
	if c.Drops[unconfirmed] < attackTotal/4 || n.ProxyQPsEvicted == 0 || n.HostsConfirmed < 10 {
		err = errors.Join(err, fmt.Errorf("counted %+v, %+v", c, n))
	}
	return fmt.Sprintf("%s; %d proxy QPs made, %d evicted; dropped %v", said, n.ProxyQPsMade, n.ProxyQPsEvicted, c.Drops), err
}

func TestForged(t *testing.T) {
	logTask(t, "forged")
}

// taskForgedSources checks that sources that no host can have are dropped by name, and cost nothing.
func taskForgedSources() (string, error) {
	const each = 100
	b, err := builtAfter(wide(""))
	if err != nil {
		return "", err
	}
	sources := []struct{ ip, drop string }{
		{"192.0.2.1", "acl"}, {"224.1.2.3", "ip_badsrc"}, {"255.255.255.255", "ip_badsrc"}, {"10.9.255.255", "ip_badsrc"},
		{"10.9.0.254", "loop_self"}, {"10.9.0.7", "loop_bridge"}, {"0.0.0.0", "ip_badsrc"}, {"127.0.0.1", "ip_badsrc"},
	}
	want := map[lcore.Drop]uint64{}
	err = running(b, func() error {
		hosts := b.Status().Hosts
		for _, x := range sources {
			d, _ := lcore.DropNamed(x.drop)
			want[d] += each
			for i := range each {
				p := message(b, nodeIP, 0x77, i+1)
				p.DstIP = netip.MustParseAddr("10.9.0.7")
				if p.SrcIP = netip.MustParseAddr(x.ip); p.SrcIP == p.DstIP { // to itself would be another reason
					p.DstIP = netip.MustParseAddr("239.1.2.3")
					p.Dst, p.DestQP = frame.GroupMAC(p.DstIP), ib.QPMulticast
				}
				p.SrcQP = ib.QPN(0x1000 + i)
				if err := b.enter(p.AppendTo(nil)); err != nil {
					return err
				}
			}
		}
		for deadline := time.Now().Add(time.Minute); b.Counters().Direction[lcore.RoCEToIB].Received < uint64(each*len(sources)); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("not all were received")
			}
		}
		time.Sleep(300 * time.Millisecond) // three publications of the status
		if s := b.Status(); s.Hosts != hosts || s.ProxyQPs != 0 || s.Counters.HostsAsked != 0 {
			return fmt.Errorf("they have cost something: %+v", s)
		}
		return nil
	})
	c := b.Counters().Direction[lcore.RoCEToIB]
	for d, n := range want {
		if c.Drops[d] != n {
			err = errors.Join(err, fmt.Errorf("%v: %d, want %d; counted %v", d, c.Drops[d], n, c.Drops))
		}
	}
	return fmt.Sprint(c.Drops), err
}

func TestForgedSources(t *testing.T) {
	logTask(t, "forged-sources")
}
