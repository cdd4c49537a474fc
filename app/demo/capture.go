// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A capture writes what passes Causeway's Ethernet port to a file.
type capture struct {
	from  *pcapgo.EthernetHandle
	file  *os.File
	ended sync.WaitGroup
	err   error
}

// startCapture opens the far end of Causeway's wire: frames pass there on both ways.
func (w *world) startCapture(path string) error {
	if path == "" {
		return nil
	}
	c := &capture{}
	err := in(w.wires, func() (err error) {
		c.from, err = pcapgo.NewEthernetHandle("dut1")
		return err
	})
	if err != nil {
		return err
	}
	if c.file, err = os.Create(path); err != nil {
		c.from.Close()
		return err
	}
	c.ended.Go(c.run)
	w.onClose(c.close)
	return nil
}

func (c *capture) run() {
	const snap = 9018
	buffered := bufio.NewWriterSize(c.file, 1<<20)
	out := pcapgo.NewWriter(buffered)
	c.err = out.WriteFileHeader(snap, layers.LinkTypeEthernet)
	for c.err == nil {
		b, info, err := c.from.ReadPacketData()
		if err != nil {
			break // closed
		}
		c.err = out.WritePacket(info, b)
	}
	c.err = errors.Join(c.err, buffered.Flush())
}

// close waits a moment for frames on their way into the file.
func (c *capture) close() error {
	time.Sleep(100 * time.Millisecond)
	c.from.Close()
	c.ended.Wait()
	return errors.Join(c.err, c.file.Close())
}
