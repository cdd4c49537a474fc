// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// ipv4Fragment is a frame with a part of a datagram of IPv4; at is its offset in units of 8 bytes.
func ipv4Fragment(at int, more bool, fill byte) []byte {
	flags := byte(at >> 8)
	if more {
		flags |= 0x20
	}
	frame := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0}
	header := []byte{0x45, 0, 0, 20 + 64, 0x12, 0x34, flags, byte(at), 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 7}
	sum := 0
	for i := 0; i < len(header); i += 2 {
		sum += int(header[i])<<8 | int(header[i+1])
	}
	sum = ^(sum + sum>>16)
	header[10], header[11] = byte(sum>>8), byte(sum)
	return append(append(frame, header...), bytes.Repeat([]byte{fill}, 64)...)
}

// TestAFPacketFragments checks that fragments come to the port as they were sent, however many queues share the frames:
// also those whose datagram is never whole.
func TestAFPacketFragments(t *testing.T) {
	ownNetwork(t)
	for _, queues := range []int{1, 2} {
		veth(t, "ours", "theirs", "1500")
		p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64, MTU: 1500})
		wire := kernelEnd(t, "theirs")
		sent := [][]byte{ipv4Fragment(0, true, 'a'), ipv4Fragment(8, false, 'b'), ipv4Fragment(0x100, true, 'c')}
		for _, frame := range sent {
			if err := wire.send(frame); err != nil {
				t.Fatal(err)
			}
		}
		came := map[string]int{}
		for deadline := time.Now().Add(time.Minute); len(came) < len(sent) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			for queue := range queues {
				var burst [8]Mbuf
				for _, m := range burst[:p.Rx(queue, burst[:])] {
					came[string(m.Bytes())]++
					m.Free()
				}
			}
		}
		for i, frame := range sent {
			if came[string(frame)] != 1 {
				t.Errorf("%d queues: fragment %d came %d times", queues, i, came[string(frame)])
			}
		}
		if len(came) != len(sent) {
			t.Errorf("%d queues: %d frames came of %d", queues, len(came), len(sent))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		ip(t, "link del ours")
	}
}

// TestAFPacketGroups opens ports on interfaces of which the PMD would make the same group, as two bridges on a machine can.
func TestAFPacketGroups(t *testing.T) {
	ownNetwork(t)
	for i, name := range []string{"one", "two"} {
		ip(t, fmt.Sprintf("link add %s index %d type veth peer name far%d", name, 1000+i<<16, i))
		ip(t, "link set "+name+" up")
		ip(t, fmt.Sprintf("link set far%d up", i))
	}
	for i, name := range []string{"one", "two"} {
		p := open(t, "af_packet:"+name, PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2, RxDescs: 64, TxDescs: 64})
		far, frame := kernelEnd(t, fmt.Sprint("far", i)), testFrame(100, uint64(i))
		if err := portEnd(p).send(frame); err != nil {
			t.Fatal(err)
		}
		var came []byte
		for end := time.Now().Add(time.Minute); came == nil && time.Now().Before(end); came = far.recv() {
			time.Sleep(time.Millisecond)
		}
		if !bytes.Equal(came, frame) {
			t.Errorf("%s sends % x, want % x", name, came, frame)
		}
	}
}
