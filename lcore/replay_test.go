// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/icrctest"
	"causeway/tables"
)

// The hosts of frame/testdata/kernel. The bridge is in B's place, with its MAC address, and has a node with its IP
// addresses.
var (
	replayA  = frame.MAC{0x52, 0x54, 0x00, 0xf6, 0xcc, 0x01}
	replayB  = frame.MAC{0x52, 0x54, 0x00, 0xfb, 0x85, 0x01}
	replayB4 = netip.MustParseAddr("10.9.0.2")
	replayB6 = netip.MustParseAddr("fd09::2")
)

// kernelFrames reads every capture of kernel RoCE hosts, in order.
func kernelFrames(t *testing.T) (all [][]byte) {
	t.Helper()
	paths, err := filepath.Glob("frame/testdata/kernel/*.pcap")
	if err != nil || len(paths) == 0 {
		t.Fatalf("captures: %v, %v", paths, err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := pcapgo.NewReader(file)
		for err == nil {
			var b []byte
			if b, _, err = r.ReadPacketData(); err == nil {
				all = append(all, b)
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return all
}

// replayFixture has all hosts, proxy QPs and groups of the frames. Hosts are spread over the workers.
func replayFixture(frames [][]byte, workers int) *fixture {
	w := smallFixture()
	c := &w.config
	c.MAC, c.Addresses = replayB, []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24"), netip.MustParsePrefix("fd09::fe/64")}
	c.Allow = []netip.Prefix{c.Addresses[0].Masked(), c.Addresses[1].Masked()}
	w.workers, w.hosts, w.proxyQPs, w.groups = workers, nil, nil, nil
	w.nodes = []tables.Node{{IP4: replayB4, IP6: replayB6, GID: nodeGID, LID: nodeLID, SL: 2, HopLimit: 1}}
	hosts, groups := map[tables.HostQP]bool{}, map[netip.Addr]bool{}
	for _, b := range frames {
		p, err := roce.Parse(b)
		if err != nil || p.Version != 2 || p.SrcQP == ib.QP1 {
			continue
		}
		if host := (tables.HostQP{Host: p.SrcIP, HostQPN: p.SrcQP}); p.Src == replayA && !hosts[host] {
			hosts[host] = true
			w.addReplayed(host)
		}
		if ip := p.DstIP; ip.IsMulticast() && !groups[ip] {
			groups[ip] = true
			w.groups = append(w.groups, tables.Group{IP: ip, Version: lcore.V2, ToIB: true, ToRoCE: true, MGID: mgidOf(ip),
				MLID: ib.LID(0xc001 + len(w.groups)), QKey: groupIB, RoCEQKey: p.QKey, MTUToIB: 4096, MTUToRoCE: 4096})
		}
	}
	return w
}

func (w *fixture) addReplayed(host tables.HostQP) {
	n := len(w.proxyQPs)
	w.hosts = append(w.hosts, tables.Host{IP: host.Host, MAC: replayA, Version: lcore.V2})
	w.proxyQPs = append(w.proxyQPs, tables.ProxyQP{HostQP: host, QP: proxyQP + uint32(n), QPN: proxyQPN + ib.QPN(n), QKey: hostQKey,
		Version: lcore.V2, Worker: n % w.workers})
}

// queueOf is the queue that a card would choose by the source address.
func queueOf(b []byte, workers int) int {
	p, _ := roce.Parse(b)
	n := 0
	for _, x := range p.SrcIP.AsSlice() {
		n = 31*n + int(x)
	}
	return n % workers
}

// replayed is what became of a capture.
type replayed struct {
	messages map[uint32][]posted // in order, by the sending proxy QP's handle
	answers  []byte              // a capture of the frames that came back
	frames   int                 // in it
	drops    [2]map[lcore.Drop]uint64
}

// replay passes frames through a bridge to a node that echoes. Its answers have a source QP for each host's QP, because
// a worker numbers packets (PSN) by their source.
func replay(t *testing.T, frames [][]byte, workers int) replayed {
	t.Helper()
	s := newRig(t, replayFixture(frames, workers))
	r := replayed{messages: map[uint32][]posted{}}
	flows := map[string][][]byte{}
	for b := range slices.Chunk(frames, 32) {
		for _, f := range b {
			s.arrive(queueOf(f, workers), f)
		}
		s.work()
		for i := range workers {
			for _, m := range s.toIB(i) {
				r.messages[m.QP] = append(r.messages[m.QP], postedOf(m))
				s.echo(m)
			}
		}
		s.work()
		for i := range workers {
			for _, f := range s.toRoCE(i) {
				p, err := roce.Parse(f)
				if err != nil {
					t.Fatalf("%x: %v", f, err)
				}
				flow := fmt.Sprint(p.DstIP, p.DestQP, p.SrcIP, p.SrcQP)
				flows[flow] = append(flows[flow], f)
				r.frames++
			}
		}
		for _, o := range s.takePunted() {
			if o.Pending != nil {
				t.Fatalf("%x waits for a proxy QP", o.Data)
			}
		}
	}
	r.answers = pcapOf(t, flows)
	for d := range r.drops {
		r.drops[d] = s.counters(lcore.Direction(d)).Drops
	}
	return r
}

// echo delivers a message to the proxy QP that sent it.
func (s *rig) echo(m fabricport.Sent) {
	s.t.Helper()
	i := int(m.QP - proxyQP)
	back := received(func(b *message) {
		b.QPN, b.SrcQP, b.Payload = proxyQPN+ib.QPN(i), ib.QPN(0x100+i), bytes.Clone(m.Payload)
		b.Imm, b.HasImm = m.Imm, m.HasImm
	})
	if n := s.ibPort.Deliver(s.fixture.proxyQPs[i].Worker, []fabricport.Received{fabricport.Received(back)}); n != 1 {
		s.t.Fatal("the port took no answer")
	}
}

// pcapOf writes frames by flow, in the order of their names.
func pcapOf(t *testing.T, flows map[string][][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	err := w.WriteFileHeader(65535, layers.LinkTypeEthernet)
	for _, flow := range slices.Sorted(maps.Keys(flows)) {
		for _, b := range flows[flow] {
			err = cmp.Or(err, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(0, 0), CaptureLength: len(b), Length: len(b)}, b))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// same returns how many bytes are the same at the start of both.
func same(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestReplay replays captures of kernel RoCE hosts with every version of the ICRC and with several numbers of workers.
// What comes out is the same each time, flow by flow and byte by byte.
func TestReplay(t *testing.T) {
	frames := kernelFrames(t)
	versions := icrctest.Versions()
	t.Cleanup(versions[0].Use)
	var first replayed
	for _, v := range versions {
		for _, workers := range []int{1, 2, 3, 4} {
			t.Run(fmt.Sprintf("%v, %d workers", v, workers), func(t *testing.T) {
				v.Use()
				r := replay(t, frames, workers)
				if first.messages == nil {
					t.Logf("%d frames: %d proxy QPs sent, %d frames came back, dropped: %v", len(frames), len(r.messages), r.frames, r.drops)
					first = r
				}
				if r.frames < 70 || len(r.messages) < 10 {
					t.Errorf("only %d frames of %d flows came back", r.frames, len(r.messages))
				}
				if !maps.EqualFunc(r.messages, first.messages, func(a, b []posted) bool {
					return slices.EqualFunc(a, b, func(x, y posted) bool { return x.equal(&y) })
				}) {
					t.Error("other messages")
				}
				if !bytes.Equal(r.answers, first.answers) {
					t.Errorf("other frames: first %d of %d and %d bytes are the same", same(r.answers, first.answers), len(r.answers), len(first.answers))
				}
				if !maps.Equal(r.drops[0], first.drops[0]) || !maps.Equal(r.drops[1], first.drops[1]) {
					t.Errorf("other drops: %v, not %v", r.drops, first.drops)
				}
			})
		}
	}
}
