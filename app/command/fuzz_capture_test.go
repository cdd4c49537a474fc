// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// fileOf returns a capture of these frames, as pcap or pcapng.
func fileOf(tb testing.TB, ng bool, frames ...[]byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var put func(gopacket.CaptureInfo, []byte) error
	if ng {
		w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
		if err != nil {
			tb.Fatal(err)
		}
		defer w.Flush()
		put = func(c gopacket.CaptureInfo, b []byte) error {
			if err := w.WritePacket(c, b); err != nil {
				return err
			}
			return w.Flush()
		}
	} else {
		w := pcapgo.NewWriter(&out)
		if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
			tb.Fatal(err)
		}
		put = w.WritePacket
	}
	for _, b := range frames {
		if err := put(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(b), Length: len(b)}, b); err != nil {
			tb.Fatal(err)
		}
	}
	return out.Bytes()
}

// FuzzCapture reads anything as a capture, as "explain pcap" does. No packet is longer than the file.
func FuzzCapture(f *testing.F) {
	for _, ng := range []bool{false, true} {
		whole := fileOf(f, ng, make([]byte, 60), make([]byte, 1500), nil)
		f.Add(whole)
		f.Add(whole[:len(whole)-700])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		next, err := packetsOf(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		for n, sum := 0, 0; ; n++ {
			data, _, _, err := next()
			if err != nil {
				return
			}
			if sum += len(data); sum > len(b) || n > len(b) {
				t.Fatalf("%d packets of %d bytes in %d", n+1, sum, len(b))
			}
		}
	})
}
