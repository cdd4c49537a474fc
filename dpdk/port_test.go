// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func TestRingPort(t *testing.T) {
	pool := newPool(t)
	rings, err := OpenRingPort(PortConfig{Pool: pool, RxQueues: 2, TxQueues: 2, RxDescs: 64, MTU: 4200, Promiscuous: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := rings.Port.Start(); err != nil {
		t.Fatal(err)
	}
	if !rings.Port.LinkUp() || rings.Port.MTU() != 4200 || rings.Port.MAC() == [6]byte{} {
		t.Errorf("link %v, MTU %d, MAC %x", rings.Port.LinkUp(), rings.Port.MTU(), rings.Port.MAC())
	}
	fabric := end{
		send: func(frame []byte) error {
			m, err := pool.Alloc(frame)
			rings.ToPort(1).Enqueue([]Mbuf{m})
			return err
		},
		recv: func() []byte {
			var burst [1]Mbuf
			if rings.FromPort(0).Dequeue(burst[:]) == 0 {
				return nil
			}
			defer burst[0].Free()
			return burst[0].Bytes()
		},
	}
	crossBothWays(t, fabric, portEnd(rings.Port), 4200)
	stats, err := rings.Port.Stats()
	if want := uint64(len(frameLens)); err != nil || stats.RxPackets != want || stats.TxPackets != want {
		t.Errorf("stats %+v, %v; want %d packets each way", stats, err, want)
	}
	left, err := pool.Alloc([]byte("left in the ring; Close frees it"))
	if err != nil || rings.ToPort(0).Enqueue([]Mbuf{left}) != 1 {
		t.Fatal(err)
	}
	if err := rings.Port.Close(); err != nil {
		t.Error(err)
	}
	if err := rings.Port.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestNullPort(t *testing.T) {
	pool := newPool(t)
	p := open(t, "null:100", PortConfig{Pool: pool})
	var burst [8]Mbuf
	n := p.Rx(0, burst[:])
	if n != len(burst) || burst[0].Len() != 100 {
		t.Fatalf("received %d frames of %d bytes, want 8 of 100", n, burst[0].Len())
	}
	if sent := p.Tx(0, burst[:n]); sent != n {
		t.Errorf("sent %d of %d", sent, n)
	}
}

func TestPcapPort(t *testing.T) {
	pool := newPool(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.pcap"), filepath.Join(dir, "out.pcap")
	var frames [][]byte
	for i, length := range frameLens {
		frames = append(frames, testFrame(length, uint64(i)))
	}
	if err := os.WriteFile(in, pcapFile(frames), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, "pcap:"+in+","+out, PortConfig{Pool: pool, MTU: 4200})
	port := portEnd(p)
	for _, want := range frames {
		got := port.recv()
		if !bytes.Equal(got, want) {
			t.Fatalf("received %d bytes, want %d", len(got), len(want))
		}
		if err := port.send(got); err != nil {
			t.Fatal(err)
		}
	}
	if extra := port.recv(); extra != nil {
		t.Errorf("a frame of %d bytes after the last", len(extra))
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	written := readPcap(t, out)
	if len(written) != len(frames) {
		t.Fatalf("%d frames written, want %d", len(written), len(frames))
	}
	for i := range frames {
		if !bytes.Equal(written[i], frames[i]) {
			t.Errorf("frame %d is not what was sent", i)
		}
	}
}

// pcapFile writes the classic format: a header of 24 bytes, then 16 bytes before every frame.
func pcapFile(frames [][]byte) []byte {
	le := binary.LittleEndian
	file := le.AppendUint32(nil, 0xa1b2c3d4)
	file = le.AppendUint16(le.AppendUint16(file, 2), 4)
	for _, word := range []uint32{0, 0, 65535, 1} { // zone, accuracy, snapshot length, Ethernet
		file = le.AppendUint32(file, word)
	}
	for i, frame := range frames {
		for _, word := range []int{i, 0, len(frame), len(frame)} {
			file = le.AppendUint32(file, uint32(word))
		}
		file = append(file, frame...)
	}
	return file
}

func readPcap(t *testing.T, name string) [][]byte {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil || len(file) < 24 {
		t.Fatalf("%d bytes of pcap: %v", len(file), err)
	}
	var frames [][]byte
	for rest := file[24:]; len(rest) >= 16; {
		length := int(binary.LittleEndian.Uint32(rest[8:]))
		frames = append(frames, rest[16:16+length])
		rest = rest[16+length:]
	}
	return frames
}

func TestMemifPair(t *testing.T) {
	pool := newPool(t)
	socket := filepath.Join(t.TempDir(), "memif.sock")
	config := PortConfig{Pool: pool, MTU: 4200, RxQueues: 2, TxQueues: 2, RxDescs: 256, TxDescs: 256}
	server := open(t, "memif:"+socket+",role=server,id=7", config)
	client := open(t, "memif:"+socket+",role=client,id=7", config)
	awaitLink(t, server, client)
	crossBothWays(t, portEnd(server), portEnd(client), 4200)
	if how, err := server.SetMulticast([][6]byte{{0x01, 0, 0x5e, 1, 2, 3}}); err != nil || how != MulticastPromiscuous {
		t.Errorf("multicast by %v, %v; want promiscuous", how, err)
	}
}

// Both ends close at once, as when two programs end: the server's connection is taken down by the EAL's interrupt thread,
// which sees that its client goes, and by whoever closes the port.
func TestMemifClosesWithItsPeer(t *testing.T) {
	config := PortConfig{Pool: newPool(t), MTU: 4200, RxDescs: 256, TxDescs: 256}
	for range 100 {
		socket := filepath.Join(t.TempDir(), "memif.sock")
		server := open(t, "memif:"+socket+",role=server", config)
		client := open(t, "memif:"+socket+",role=client", config)
		awaitLink(t, server, client)
		for _, end := range []*Port{client, server} {
			if err := end.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
