// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"causeway/ibside/stamp"
)

const kernelFrames = "../../lcore/frame/testdata/kernel"

// TestKernelFrames reads the recordings: each message's ICRC is right, and each payload that udend made is undamaged.
// Then one bit is changed, and both checks must fail.
func TestKernelFrames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(kernelFrames, "*.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s (%v); make them: go test -tags e2e -run TestRecordKernelFrames -record ./app/e2e", kernelFrames, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pcap")
		t.Run(name, func(t *testing.T) {
			frames, err := ReadPcap(file)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i, f := range frames {
				if m, ok := parseMessage(f.Data); ok {
					found++
					checkMessage(t, i+1, name, f, m)
				}
			}
			if found == 0 {
				t.Error("no RoCE message")
			}
		})
	}
}

func checkMessage(t *testing.T, n int, name string, f Frame, m Message) {
	t.Helper()
	udends := (strings.HasPrefix(name, "ud_") && name != "ud_pingpong") || strings.HasPrefix(name, "mcast_")
	if !m.ICRCGood {
		t.Errorf("frame %d: the ICRC is wrong", n)
	}
	if _, v := stamp.Read(m.Payload); udends && !v.Intact() && !recordedIntact(m.Payload) {
		t.Errorf("frame %d: the payload of %d bytes is not as udend made it: %x", n, len(m.Payload), m.Payload)
	}
	changed := bytes.Clone(f.Data)
	changed[len(changed)-icrcLen-transport/2] ^= 1
	if m, ok := parseMessage(changed); ok && m.ICRCGood {
		t.Errorf("frame %d: a wrong bit goes unnoticed", n)
	}
}

// recordedIntact reports whether a payload is as udend made it before it sent messages of package stamp: it begins with
// the CRC-32 of what follows; one below 8 bytes is a hash of its length and each position.
func recordedIntact(b []byte) bool {
	if len(b) >= 8 {
		return binary.BigEndian.Uint32(b) == crc32.ChecksumIEEE(b[4:])
	}
	for i := range b {
		h := uint32(len(b))*0x9e3779b1 + uint32(i)
		h = (h ^ h>>16) * 0x85ebca6b
		h = (h ^ h>>13) * 0xc2b2ae35
		if b[i] != byte(h^h>>16) {
			return false
		}
	}
	return true
}

func TestPcapRoundTrip(t *testing.T) {
	first, err := ReadPcap(filepath.Join(kernelFrames, "ud_v4.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "again.pcap")
	if err := WritePcap(file, first); err != nil {
		t.Fatal(err)
	}
	second, err := ReadPcap(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) == 0 || len(first) != len(second) {
		t.Fatalf("%d frames written, %d read", len(first), len(second))
	}
	for i := range first {
		if !first[i].Time.Equal(second[i].Time) || !bytes.Equal(first[i].Data, second[i].Data) {
			t.Errorf("frame %d differs", i+1)
		}
	}
}
