// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

func init() { tasks["noise"] = taskNoise }

const noiseTotal = 20_000 // frames of each kind

// A noise is frames of one kind that one host sends without end.
type noise struct {
	name  string
	frame func(s *siege, i int) []byte
}

// noisy is the host that sends them; it has a MAC address and answers ARP.
var noisy = newTalker(66, 1)

var noises = []noise{
	{"ARP", func(*siege, int) []byte { return noisy.arp(frame.Broadcast) }},
	{"IGMP", func(s *siege, i int) []byte { return igmpFrame(s.Bridge, i%10_000) }},
	{"SIDR", func(s *siege, i int) []byte { return sidrFrame(s.Bridge, i, noisy.ip) }},
	{"queue pairs", func(s *siege, i int) []byte {
		p := message(s.Bridge, nodeIP, 0x78, i)
		p.Src, p.SrcIP, p.SrcQP = noisy.mac, noisy.ip, ib.QPN(0x1000+i)
		return p.AppendTo(nil)
	}},
	{"unknown nodes", func(s *siege, i int) []byte {
		p := message(s.Bridge, crowdIP(i%40_000), 0x78, i)
		p.Src, p.SrcIP = noisy.mac, noisy.ip
		return p.AppendTo(nil)
	}},
}

// join reports the n-th group of a range of its own, once.
func (s *siege) join(n byte) error { return s.enter(reportOf(joined(n))) }

func joined(n byte) netip.Addr { return netip.AddrFrom4([4]byte{239, 3, 0, n}) }

// hasJoined asks management as the console does, and returns how long that took.
func (s *siege) hasJoined(n byte) (is bool, took time.Duration, err error) {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	began := time.Now()
	list, err := s.ListGroups(ctx, manage.Query{In: netip.PrefixFrom(joined(n), 32)})
	return len(list.Entries) > 0, time.Since(began), err
}

// among lets a noise go on while another station joins a group, the console asks, and a newcomer comes.
func (s *siege) among(x *noise, n byte, known []*talker) (string, error) {
	s.noise, s.began, s.forged = x.frame, time.Now(), 0
	if _, err := s.attack(noiseTotal/2, known, never); err != nil {
		return "", err
	}
	if err := s.join(n); err != nil {
		return "", err
	}
	var longest time.Duration
	in, asked := false, 0
	ask := func() (is bool, err error) {
		is, took, err := s.hasJoined(n)
		longest = max(longest, took)
		asked++
		return is, err
	}
	for s.forged < noiseTotal && !in {
		var err error
		if in, err = ask(); err != nil {
			return "", err
		}
		if _, err := s.attack(attackTurn*20, known, never); err != nil {
			return "", err
		}
	}
	if !in {
		return "", errors.New("one report did not make the bridge join a group")
	}
	at, err := s.served(newTalker(100+n, 2), true, known)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d frames in %v; a newcomer was served within %d; %d lists took %v at most", x.name, s.forged,
		time.Since(s.began).Round(time.Millisecond), at, asked, longest.Round(time.Microsecond)), s.await(known)
}

// taskNoise checks that no host takes what others need of management: one report makes the bridge join, a newcomer is
// served, the console is answered, and known hosts lose nothing.
func taskNoise() (string, error) {
	text := besiegeable("hosts = 1024\nproxy_qps = 512\nproxy_qps_per_host = 128")
	for _, r := range []string{"239.2.0.0/16", "239.3.0.0/16"} {
		text += fmt.Sprintf("[[range]]\nip = %q\nfrom = [\"reports\"]\nmost = 256\nmgid = \"rdmacm\"\n", r)
	}
	b, err := builtAfter(text + fmt.Sprintf("[[service]]\nport = %d\n", floodPort))
	if err != nil {
		return "", err
	}
	var said []string
	err = running(b, func() error {
		known := []*talker{newTalker(20, 4), newTalker(21, 4)}
		s := &siege{Bridge: b, talkers: append([]*talker{noisy}, known...)}
		for _, x := range s.talkers {
			if err := s.enter(append([][]byte{x.arp(frame.Broadcast)}, x.messages(b)...)...); err != nil {
				return err
			}
		}
		if err := s.await(known); err != nil {
			return err
		}
		for i := range noises {
			line, err := s.among(&noises[i], byte(1+i), known)
			if err != nil {
				return fmt.Errorf("%s: %w; %v", noises[i].name, err, b.Counters().Direction)
			}
			said = append(said, line)
		}
		return nil
	})
	return strings.Join(said, "\n"), err
}

func TestNoise(t *testing.T) {
	logAnswers(t, "noise")
}
