// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/app/segment"
	"causeway/fleet/shares"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
	"causeway/ibside/stamp"
	"causeway/lcore/frame/roce"
)

// seen is a numbered message, captured where it came out of somebody's port into the segment or the subnet.
type seen struct {
	at     time.Time
	member int          // whose port it is; 0: a host's or a node's
	toIB   bool         // the way that it goes
	share  shares.Share // by which the members divide it; of hosts and nodes only
	stream uint32
	number uint64
}

// fleetCapture captures all that members, hosts and nodes send.
type fleetCapture struct {
	t       *testing.T
	ending  atomic.Bool
	running sync.WaitGroup

	mu    sync.Mutex
	since []seen             // the last take
	sent  map[int]*[2]uint64 // by each member since it was started: to RoCE, to InfiniBand
}

// newFleetCapture begins with the subnet, whose capture comes from a pipe.
func newFleetCapture(t *testing.T, subnet *fabric.Fabric, from *io.PipeReader) *fleetCapture {
	c := &fleetCapture{t: t, sent: map[int]*[2]uint64{}}
	c.running.Go(func() {
		if err := c.infiniband(subnet, from); err != nil {
			t.Error(err)
		}
	})
	return c
}

// note takes in a message.
func (c *fleetCapture) note(m seen, payload []byte) {
	s, v := stamp.Read(payload)
	if !v.Stamped() {
		return // of the bridges' management
	}
	m.stream, m.number = s.Stream, s.Number
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = append(c.since, m)
	if m.member != 0 {
		way := 0
		if m.toIB {
			way = 1
		}
		c.sent[m.member][way]++
	}
}

// started begins to count what a member sends.
func (c *fleetCapture) started(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[n] = new([2]uint64)
}

// take returns what was captured since it was called last.
func (c *fleetCapture) take() []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.since
	c.since = nil
	return all
}

// infiniband reads the switch's capture.
func (c *fleetCapture) infiniband(subnet *fabric.Fabric, from io.Reader) error {
	r, err := pcapgo.NewReader(from)
	if err != nil {
		return err
	}
	members := map[ib.LID]int{} // LIDs are not given out again
	for {
		b, _, err := r.ReadPacketData()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		record, _ := erftest.Parse(b)
		p, fault := ib.ParsePacket(record.Packet)
		if fault != ib.FaultNone {
			continue
		}
		if _, known := members[p.SLID]; !known {
			for _, port := range subnet.Ports() {
				members[port.LID] = slices.Index([]string{"", "m1", "m2", "m3"}, port.Name)
			}
		}
		m := seen{at: record.Time, member: max(members[p.SLID], 0)}
		if m.toIB = m.member != 0; !m.toIB && p.GRH != nil {
			m.share = shares.OfGroup(p.GRH.DGID)
		}
		c.note(m, p.Payload)
	}
}

// ethernet captures what comes into the segment by one of its ports, which is a member's or, with 0, a host's.
func (c *fleetCapture) ethernet(at place, port string, member int) {
	c.t.Helper()
	pid, err := strconv.Atoi(at[2])
	if err != nil {
		c.t.Fatal(err)
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		c.t.Fatal(err)
	}
	defer ns.Close()
	var fd int
	err = segment.In(ns, func() (err error) {
		fd, err = ingress(port)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.running.Go(func() {
		defer unix.Close(fd)
		if err := c.receive(fd, member); err != nil {
			c.t.Errorf("%s: %v", port, err)
		}
	})
}

// ingress opens a packet socket for what comes in by an interface. Its receiver looks up now and then.
func ingress(port string) (int, error) {
	link, err := net.InterfaceByName(port)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	all := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	return fd, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
}

// receive reads a packet socket until the capture ends.
func (c *fleetCapture) receive(fd, member int) error {
	b, control := make([]byte, 9018), make([]byte, 64)
	for !c.ending.Load() {
		n, more, _, _, err := unix.Recvmsg(fd, b, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue // the last: its cable was pulled
		} else if err != nil {
			return err
		}
		p, err := roce.Parse(b[:n])
		if err != nil {
			continue // ARP, IGMP
		}
		at, err := stamped(control[:more])
		if err != nil {
			return err
		}
		m := seen{at: at, member: member, toIB: member == 0}
		if m.toIB {
			m.share = shares.OfHost(p.Src)
		}
		c.note(m, p.Payload)
	}
	return nil
}

// stamped returns when the kernel received a frame.
func stamped(control []byte) (time.Time, error) {
	all, err := unix.ParseSocketControlMessage(control)
	for _, x := range all {
		if x.Header.Level == unix.SOL_SOCKET && x.Header.Type == unix.SO_TIMESTAMPNS && len(x.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(x.Data)), int64(binary.NativeEndian.Uint64(x.Data[8:]))), nil
		}
	}
	return time.Time{}, errors.Join(errors.New("a frame has no time"), err)
}

// close ends it, after the subnet.
func (c *fleetCapture) close() {
	c.ending.Store(true)
	c.running.Wait()
}
