// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// Lengths and link type of a pcap file as tcpdump writes it here
// (pcap-savefile(5)): little endian, microseconds, Ethernet.
const (
	pcapMagic     = 0xa1b2c3d4
	pcapFileLen   = 24
	pcapRecordLen = 16
	pcapEthernet  = 1
)

// Frame is one captured Ethernet frame, without FCS.
type Frame struct {
	Time time.Time
	Data []byte
}

// ReadPcap returns all frames of a pcap file. A frame cut short is an error.
func ReadPcap(file string) ([]Frame, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(b) < pcapFileLen || binary.LittleEndian.Uint32(b) != pcapMagic || binary.LittleEndian.Uint32(b[20:]) != pcapEthernet {
		return nil, fmt.Errorf("%s: not a little-endian Ethernet pcap file", file)
	}
	var frames []Frame
	for b = b[pcapFileLen:]; len(b) > 0; {
		if len(b) < pcapRecordLen {
			return nil, fmt.Errorf("%s: frame %d: no room for its header", file, len(frames)+1)
		}
		seconds, micros := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		stored, length := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
		b = b[pcapRecordLen:]
		if stored != length || int64(stored) > int64(len(b)) {
			return nil, fmt.Errorf("%s: frame %d: %d of %d bytes stored", file, len(frames)+1, stored, length)
		}
		frames = append(frames, Frame{time.Unix(int64(seconds), int64(micros)*1000), b[:stored:stored]})
		b = b[stored:]
	}
	return frames, nil
}

// WritePcap writes frames as tcpdump would.
func WritePcap(file string, frames []Frame) error {
	b := binary.LittleEndian.AppendUint32(nil, pcapMagic)
	b = binary.LittleEndian.AppendUint16(b, 2) // version 2.4
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)                // time zone and accuracy: always 0
	b = binary.LittleEndian.AppendUint32(b, 256<<10) // snapshot length
	b = binary.LittleEndian.AppendUint32(b, pcapEthernet)
	for _, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Time.Unix()))
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Time.Nanosecond()/1000))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
		b = append(b, f.Data...)
	}
	return os.WriteFile(file, b, 0o644)
}
