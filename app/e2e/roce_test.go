// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

const kernelFrames = "../../lcore/frame/testdata/kernel"

// TestKernelFrames reads the recordings: each message's ICRC is right, and each
// payload that udend made is whole. Then one bit is wrong, and both must notice.
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
	patterns := (strings.HasPrefix(name, "ud_") && name != "ud_pingpong") || strings.HasPrefix(name, "mcast_")
	if !m.ICRCGood {
		t.Errorf("frame %d: the ICRC is wrong", n)
	}
	if _, ok := CheckPattern(m.Payload); patterns && !ok {
		t.Errorf("frame %d: the payload of %d bytes is no pattern: %x", n, len(m.Payload), m.Payload)
	}
	changed := bytes.Clone(f.Data)
	changed[len(changed)-icrcLen-transport/2] ^= 1
	if m, ok := parseMessage(changed); ok && m.ICRCGood {
		t.Errorf("frame %d: a wrong bit goes unnoticed", n)
	}
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
