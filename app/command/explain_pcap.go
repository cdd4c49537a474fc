// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// frameOf returns the n-th packet of a capture file, from 1, which is of Ethernet.
func frameOf(name string, n uint64) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("explain %s: %w", name, err) }
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(errors.Unwrap(err))
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return fail(errors.New("this is not a file"))
	}
	next, err := packetsOf(bufio.NewReader(file))
	if err != nil {
		return fail(errors.New("this is neither pcap nor pcapng"))
	}
	for i := uint64(1); ; i++ {
		data, link, whole, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return fail(fmt.Errorf("it has %d packets", i-1))
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fail(fmt.Errorf("the file ends within packet %d", i))
		case err != nil:
			return fail(err)
		case i < n:
		case link != layers.LinkTypeEthernet:
			return fail(fmt.Errorf("packet %d is not of Ethernet: describe it to explain from ib", n))
		case !whole:
			return fail(fmt.Errorf("packet %d is truncated: capture without a snap length", n))
		default:
			return data, nil
		}
	}
}

// packetsOf returns what reads a file packet by packet.
func packetsOf(file *bufio.Reader) (next func() (data []byte, link layers.LinkType, whole bool, err error), err error) {
	magic, err := file.Peek(4)
	if err != nil {
		return nil, err
	}
	complete := func(info gopacket.CaptureInfo) bool { return info.CaptureLength == info.Length }
	if [4]byte(magic) != [4]byte{0x0a, 0x0d, 0x0d, 0x0a} { // of a section header block
		r, err := pcapgo.NewReader(file)
		if err != nil {
			return nil, err
		}
		return func() ([]byte, layers.LinkType, bool, error) {
			data, info, err := r.ReadPacketData()
			return data, r.LinkType(), complete(info), err
		}, nil
	}
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return nil, err
	}
	return func() ([]byte, layers.LinkType, bool, error) {
		data, info, err := r.ReadPacketData()
		if err != nil {
			return nil, 0, false, err
		}
		at, err := r.Interface(info.InterfaceIndex)
		return data, at.LinkType, complete(info), err
	}, nil
}
