// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"causeway/app/segment"
)

// A capture writes the frames at Causeway's Ethernet port to a file.
type capture struct {
	from  *os.File // a packet socket
	file  *os.File
	ended sync.WaitGroup
	err   error
}

// startCapture captures at the far end of Causeway's veth pair, where frames of both directions pass.
func (tb *testbed) startCapture(path string) error {
	if path == "" {
		return nil
	}
	c := &capture{}
	err := tb.segment.Do(func() (err error) {
		c.from, err = packetSocket(segment.Far)
		return err
	})
	if err != nil {
		return err
	}
	if c.file, err = os.Create(path); err != nil {
		return errors.Join(fmt.Errorf("-pcap: %w", reason(err)), c.from.Close())
	}
	c.ended.Go(c.run)
	tb.onClose(c.close)
	return nil
}

// packetSocket opens a socket that reads every frame of an interface (packet(7)). Its buffer holds some seconds of the
// demonstration's traffic, so that a busy machine loses none.
func packetSocket(name string) (*os.File, error) {
	const room = 32 << 20
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	protocol := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in wire order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", name, err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packets of "+name), nil
}

func (c *capture) run() {
	const snap = 9018
	buffered := bufio.NewWriterSize(c.file, 1<<20)
	out := pcapgo.NewWriter(buffered)
	c.err = out.WriteFileHeader(snap, layers.LinkTypeEthernet)
	b := make([]byte, snap)
	for c.err == nil {
		n, err := c.from.Read(b)
		if err != nil {
			break // closed
		}
		c.err = out.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: n, Length: n}, b[:n])
	}
	c.err = errors.Join(c.err, buffered.Flush())
}

// close waits a moment for frames still in the socket.
func (c *capture) close() error {
	time.Sleep(100 * time.Millisecond)
	closing := c.from.Close()
	c.ended.Wait()
	return errors.Join(c.err, closing, c.file.Close())
}
