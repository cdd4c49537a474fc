// SPDX-License-Identifier: Apache-2.0

// Package fleettest tests fleets of bridges: it breaks what is between members, and judges the fleet by captures of all that
// leaves their ports.
package fleettest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"causeway/fleet/shards"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
	"causeway/ibside/stamp"
	"causeway/lcore/frame/roce"
)

// memberOf returns the number of the member that a port is of, by its name; 0: of none.
func memberOf(port string) (n int) {
	if number, is := strings.CutPrefix(port, "m"); is {
		n, _ = strconv.Atoi(number)
	}
	return n
}

// Seen is a numbered message, captured where it came out of somebody's port into the segment or the subnet.
type Seen struct {
	At      time.Time
	Member  int          // whose port it is; 0: a host's or a node's
	ToIB    bool         // the way that it goes
	Divided bool         // by shards among the members, and not the one's that a node has answered; of hosts and nodes only
	Shard   shards.Shard // if so
	Stream  uint32
	Number  uint64
}

// Capture captures all that members, hosts and nodes send.
type Capture struct {
	t       *testing.T
	stream  func(s stamp.Stamp, toIB bool) uint32
	ending  atomic.Bool
	running sync.WaitGroup

	mu      sync.Mutex
	since   []Seen             // what was not taken
	sent    map[int]*[2]uint64 // by each member since it was started: to RoCE, to InfiniBand
	courses map[uint32]*course // of the streams
	readers []*atomic.Int64    // up to when each has read its socket
}

// NewSubnet makes a subnet at a socket, and begins to capture there, until the test ends. stream says which stream a message is
// of; nil: the one of its stamp.
func NewSubnet(t *testing.T, socket string, stream func(s stamp.Stamp, toIB bool) uint32) (*fabric.Fabric, *Capture) {
	t.Helper()
	if stream == nil {
		stream = func(s stamp.Stamp, _ bool) uint32 { return s.Stream }
	}
	c := &Capture{t: t, stream: stream, sent: map[int]*[2]uint64{}, courses: map[uint32]*course{}}
	from, to := io.Pipe()
	subnet, err := fabric.New(fabric.Config{Socket: socket, Capture: to})
	if err != nil {
		t.Fatal(err)
	}
	c.running.Go(func() {
		if err := c.infiniband(subnet, from); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if err := errors.Join(subnet.Close(), to.Close()); err != nil {
			t.Error(err)
		}
		c.ending.Store(true)
		c.running.Wait()
	})
	return subnet, c
}

// note takes in a message.
func (c *Capture) note(m Seen, payload []byte) {
	s, v := stamp.Read(payload)
	if !v.Stamped() {
		return // of the bridges' management
	}
	m.Stream, m.Number = c.stream(s, m.ToIB), s.Number
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = append(c.since, m)
	if m.Member == 0 {
		if c.courses[m.Stream] == nil {
			c.courses[m.Stream] = &course{toIB: m.ToIB}
		}
		x := c.courses[m.Stream]
		x.sent = max(x.sent, m.Number)
		return
	}
	way := 0
	if m.ToIB {
		way = 1
	}
	c.sent[m.Member][way]++
}

// Started begins to count what a member sends.
func (c *Capture) Started(member int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[member] = new([2]uint64)
}

// Sent returns how many messages a member has sent since it was started.
func (c *Capture) Sent(member int) (toRoCE, toIB uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[member][0], c.sent[member][1]
}

// Left reports whether a member has sent a message that was not taken yet.
func (c *Capture) Left(stream uint32, number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.since, func(m Seen) bool { return m.Member != 0 && m.Stream == stream && m.Number == number })
}

// Streams counts those of which members have sent what was not taken yet.
func (c *Capture) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	streams := map[uint32]bool{}
	for _, m := range c.since {
		if m.Member != 0 {
			streams[m.Stream] = true
		}
	}
	return len(streams)
}

// Take returns of what was captured, and not taken before, what is wanted; nil wants all.
func (c *Capture) Take(wanted func(Seen) bool) (all []Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = slices.DeleteFunc(c.since, func(m Seen) bool {
		takes := wanted == nil || wanted(m)
		if takes {
			all = append(all, m)
		}
		return takes
	})
	return all
}

// infiniband reads the switch's capture.
func (c *Capture) infiniband(subnet *fabric.Fabric, from io.Reader) error {
	r, err := pcapgo.NewReader(from)
	if err != nil {
		return err
	}
	numbers := map[ib.LID]int{} // of members; LIDs are not given out again
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
		if _, known := numbers[p.SLID]; !known {
			for _, port := range subnet.Ports() {
				numbers[port.LID] = memberOf(port.Name)
			}
		}
		m := Seen{At: record.Time, Member: numbers[p.SLID]}
		if m.ToIB = m.Member != 0; !m.ToIB && p.GRH != nil && p.GRH.DGID.IsIBMulticast() {
			m.Divided, m.Shard = true, shards.OfGroup(p.GRH.DGID)
		}
		c.note(m, p.Payload)
	}
}

// Ethernet captures what comes into the segment by one of its interfaces, which is a member's or, with 0, a host's. at runs what it
// is given in the segment's network namespace.
func (c *Capture) Ethernet(at func(func() error) error, port string, member int) {
	c.t.Helper()
	c.read(at, port, func(p *roce.Packet, when time.Time) {
		m := Seen{At: when, Member: member, ToIB: member == 0}
		if m.ToIB {
			m.Divided, m.Shard = true, shards.OfHost(p.Src)
		}
		c.note(m, p.Payload)
	})
}

// read gives what comes in by an interface to take, until the capture ends.
func (c *Capture) read(at func(func() error) error, port string, take func(p *roce.Packet, when time.Time)) {
	c.t.Helper()
	var fd int
	err := at(func() (err error) {
		fd, err = ingress(port)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	upTo := c.reader()
	c.running.Go(func() {
		defer unix.Close(fd)
		if err := c.receive(fd, upTo, take); err != nil {
			c.t.Errorf("%s: %v", port, err)
		}
	})
}

// ingress opens a packet socket for what comes in by an interface.
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
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
}

// receive reads a packet socket until the capture ends, and tells up to when it has.
func (c *Capture) receive(fd int, upTo *atomic.Int64, take func(p *roce.Packet, when time.Time)) error {
	b, control := make([]byte, 9018), make([]byte, 64)
	for !c.ending.Load() {
		began := time.Now().UnixNano()
		n, more, _, _, err := unix.Recvmsg(fd, b, control, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			upTo.Store(began)
			time.Sleep(20 * time.Millisecond) // the kernel keeps what comes, with its time: to wake for each frame costs who is watched
			continue
		} else if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue // the last: its cable was pulled
		} else if err != nil {
			return err
		}
		when, err := stamped(control[:more])
		if err != nil {
			return err
		}
		if p, err := roce.Parse(b[:n]); err == nil { // else ARP, IGMP
			take(&p, when)
		}
		upTo.Store(when.UnixNano())
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
