// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
)

func init() { tasks["floods"] = taskFloods }

// A flood is frames of one kind, with functions that count how many of them were rejected by name, and how many entries
// they left behind, of how many at most.
type flood struct {
	name  string
	n     int
	frame func(h *Bridge, i int) []byte
	named func(s manage.Status) (rejected, kept, most uint64)
}

const floodPort = 7174

var floods = []flood{
	{"SIDR", 20_000, func(h *Bridge, i int) []byte { return sidrFrame(h, i, crowdIP(i)) }, func(s manage.Status) (rejected, kept, most uint64) {
		c := s.Counters.Services[lcore.RoCEToIB]
		return c[manage.ServiceBusy] + c[manage.ServiceTimedOut], uint64(s.Asked[lcore.RoCEToIB]), 2048
	}},
	{"ARP", 50_000, arpFrame, func(s manage.Status) (rejected, kept, most uint64) {
		return s.Counters.HostsRejected, uint64(s.Hosts), 4096
	}},
	{"IGMP", 10_000, igmpFrame, func(s manage.Status) (rejected, kept, most uint64) {
		return s.Counters.GroupsRejected["host_full"], uint64(s.Learned), 128 // of one host: half of the range's
	}},
}

// sidrFrame asks for the node's service from an address, with a port and an ID that follow from i.
func sidrFrame(h *Bridge, i int, from netip.Addr) []byte {
	p := message(h, nodeIP, ib.QP1, i)
	p.SrcIP, p.SrcQP, p.QKey, p.SrcPort = from, ib.QP1, ib.QKeyGSI, uint16(0xc000+i%0x3fff)
	p.Payload = make([]byte, ib.MADLen)
	ib.PutMAD(p.Payload, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: uint64(i), AttrID: ib.AttrSIDRReq,
	})
	private := make([]byte, ib.CMAHdrLen)
	ib.PutCMAHeader(private, ib.CMAFields{SrcPort: uint16(i), Src: p.SrcIP, Dst: nodeIP})
	ib.PutSIDRReq(p.Payload[ib.MADHdrLen:], ib.SIDRReqFields{
		RequestID: uint32(i), PKey: ib.PKeyDefault, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, floodPort), Private: private,
	})
	return p.AppendTo(nil)
}

// arpFrame claims an address.
func arpFrame(_ *Bridge, i int) []byte {
	b := make([]byte, 60)
	mac := frame.MAC{2, 9, 0, byte(i >> 16), byte(i >> 8), byte(i)}
	eth := frame.PutEthernet(b, frame.EthernetFields{Dst: frame.MAC{255, 255, 255, 255, 255, 255}, Src: mac, Type: frame.TypeARP})
	frame.PutARP(b[len(eth):], frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: crowdIP(i), TPA: crowdIP(i)})
	return b
}

// igmpFrame reports a group of the range.
func igmpFrame(_ *Bridge, i int) []byte {
	return reportOf(netip.AddrFrom4([4]byte{239, 2, byte(i >> 8), byte(i)}))
}

// reportOf is a host's report of its membership.
func reportOf(group netip.Addr) []byte {
	b := make([]byte, 60)
	eth := frame.PutEthernet(b, frame.EthernetFields{Dst: frame.GroupMAC(group), Src: hostMAC, Type: frame.TypeIPv4})
	ip := frame.PutIPv4(b[len(eth):], frame.IPv4Fields{
		TotalLen: frame.IPv4Len + frame.IGMPLen, TTL: 1, Protocol: frame.ProtoIGMP, Src: hostIP, Dst: group,
	})
	frame.PutIGMP(b[len(eth)+len(ip):], frame.IGMPv2Report, 0, group)
	return b
}

// good sends some messages to the echo and checks that they come back.
func (b *Bridge) good(first, n int) error {
	for i := range n {
		p := message(b, nodeIP, 0x77, first+i)
		if err := b.enter(p.AppendTo(nil)); err != nil {
			return err
		}
	}
	var answers []roce.Packet
	for len(answers) < n {
		one, err := b.leave(1)
		if err != nil {
			return fmt.Errorf("of messages from %d on %d came back: %w", first, len(answers), err)
		}
		if one[0].SrcQP != ib.QP1 { // not a SIDR_REP for the flood
			answers = append(answers, one...)
		}
	}
	return answersTo(first, answers)
}

// The memory that a bounded flood may leave in use between its half and its end. Heap: garbage is collected before, and
// a counter or a map bucket here and there stays. Resident: the collector keeps freed pages for a time.
const (
	heapMore     = 4 << 20
	residentMore = 32 << 20
)

// unpunted counts what found no room on its way to management, packets and control frames.
func (b *Bridge) unpunted() uint64 {
	full, _ := lcore.DropNamed("punt_full")
	c := b.Counters()
	return c.Direction[lcore.RoCEToIB].Drops[full] + c.Punt.Full
}

// flooded sends a flood, with good messages between, and returns a summary. On a slow machine, where each good message
// costs a turn of several processes, the flood is down to a quarter as long, which is still some times what is kept.
func (b *Bridge) flooded(f flood, slow float64, number *int) (string, error) {
	f.n = int(float64(f.n) / min(slow, 4))
	const burst, among = 200, 5
	var heap, rss int64
	start, lostBefore := time.Now(), b.unpunted()
	for i := range f.n {
		if err := b.enter(f.frame(b, i)); err != nil {
			return "", err
		}
		if i%burst == burst-1 {
			if err := b.good(*number, among); err != nil {
				return "", err
			}
			*number += among
		}
		if i == f.n/2 {
			heap, rss = memory()
		}
	}
	took := time.Since(start)
	heapAfter, rssAfter := memory()
	var s manage.Status
	var rejected, kept, most uint64
	fine := false
	for deadline := time.Now().Add(time.Minute); !fine && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s = b.Status() // is published from time to time
		rejected, kept, most = f.named(s)
		lost := b.unpunted() - lostBefore
		fine = rejected > 0 && kept <= most && rejected+kept+lost >= uint64(f.n)
	}
	said := fmt.Sprintf("%s: %d frames in %v, %d kept, %d rejected, heap %+d KiB, resident %+d KiB", f.name, f.n, took.Round(time.Millisecond), kept, rejected,
		(heapAfter-heap)>>10, (rssAfter-rss)>>10)
	if !fine || !s.Ready || heapAfter-heap > heapMore || rssAfter-rss > residentMore {
		return said, fmt.Errorf("%s; status %+v", said, s)
	}
	return said, nil
}

// taskFloods checks that good messages cross without loss during each flood, and that the flood's frames are all
// counted by name.
func taskFloods() (string, error) {
	text := wide("hosts = 4096\nproxy_qps_unconfirmed = 0") + fmt.Sprintf("[[range]]\nip = \"239.2.0.0/16\"\nfrom = [\"reports\"]\nmost = 256\nmgid = \"rdmacm\"\n"+
		"[[service]]\nport = %d\n", floodPort)
	h, err := builtAfter(text)
	if err != nil {
		return "", err
	}
	var said []string
	number, slow := 1, slowtest.Factor()
	err = running(h, func() error {
		for _, f := range floods {
			line, err := h.flooded(f, slow, &number)
			if err != nil {
				return err
			}
			said = append(said, line)
		}
		return nil
	})
	c := h.Counters()
	in, out, sent := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE], uint64(number-1)
	full, _ := lcore.DropNamed("punt_full")
	served, _ := lcore.DropNamed("mad_served")
	if in.Sent != sent || out.Sent != sent || in.Received != sent+in.Drops[served]+in.Drops[full] {
		err = errors.Join(err, fmt.Errorf("%d good messages; counted %+v", sent, c.Direction))
	}
	said = append(said, fmt.Sprintf("%d good messages each way, mad_served %d, punt_full %d", sent, in.Drops[served], in.Drops[full]))
	return strings.Join(said, "\n"), err
}

func TestFloods(t *testing.T) {
	logTask(t, "floods")
}
