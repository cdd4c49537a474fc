// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/stamp"
)

// Offsets in an untagged RoCE v2 frame.
const (
	ipAt    = 14
	ipv4Len = 20
)

// transportAt is where the BTH begins.
func transportAt(frame []byte) int {
	if frame[ipAt]>>4 == 4 {
		return ipAt + ipv4Len + 8
	}
	return ipAt + ipv6Header + 8
}

// damages are single wrong bits that nothing but the ICRC can notice.
func damages(frame []byte) [][]byte {
	var damaged [][]byte
	bth := transportAt(frame)
	for _, at := range []int{
		len(frame) - 1, len(frame) - icrcLen, // the ICRC itself
		len(frame) - icrcLen - 1,     // the payload's last byte
		bth + 11,                     // PSN
		bth + 12 + 7,                 // source QPN
		transportAt(frame) - 8,       // UDP source port
		bth + 12 + 8 + stamp.Len + 3, // within the payload
	} {
		d := bytes.Clone(frame)
		d[at] ^= 1
		damaged = append(damaged, d)
	}
	return damaged
}

// rerouted is a frame as it leaves a router that marks packets: with another traffic class and hop limit, which the
// ICRC does not cover.
func rerouted(frame []byte) []byte {
	f := bytes.Clone(frame)
	ip := f[ipAt:]
	if ip[0]>>4 == 6 {
		ip[0], ip[1] = 0x6a, ip[1]|0x80
		ip[7] = 3
		return f
	}
	ip[1], ip[8] = 0xa8, 3
	ip[10], ip[11] = 0, 0
	var sum uint32
	for i := 0; i < ipv4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return f
}

// TestKernelChecksICRC: the kernel checks the ICRC of the bridge's frames, and accepts them.
func TestKernelChecksICRC(t *testing.T) {
	r, a, _ := theRig(t)
	proof := proves(t, "the kernel checks the ICRC that the bridge writes")
	_, node := networks[0].bridge(t, fabric.RoleNone)
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, group string) {
		first, second := publishedFrames(t, node, nodeIP, group)
		listener, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --mgid %s --count 3 --seconds 20 recv", host.udendArgs(), unicast, group))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Stop()
		frames := slices.Concat([][]byte{first}, damages(first), damages(second), [][]byte{second, rerouted(second)})
		if err := r.Inject("tapA", frames...); err != nil {
			t.Fatal(err)
		}
		events, exit, err := listener.Wait(within(t, stepTime))
		var came []uint32
		for _, e := range Only(events, "received") {
			came = append(came, e.Seq)
		}
		if exit != 0 || err != nil || !slices.Equal(came, []uint32{1, 2, 2}) {
			t.Errorf("of %d frames those with numbers %v came, want 1, 2, 2: exit %d, %v", len(frames), came, exit, err)
		}
		proof.add(len(frames))
	})
}

// TestBridgeChecksICRC: the bridge checks the ICRC of the kernel's frames, and accepts them.
func TestBridgeChecksICRC(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "the bridge checks the ICRC that the kernel writes")
	c, node := networks[0].bridge(t, fabric.RoleNone)
	networks[0].families(t, a, func(t *testing.T, host Peer, _, group string) {
		proof.add(injectIntoBridge(t, c, node, host, group))
	})
}

// publishedFrames returns two messages of the bridge's as they came to host A.
func publishedFrames(t *testing.T, node *IBNode, nodeIP, group string) (first, second []byte) {
	t.Helper()
	wire := startCapture(t, "tapA", "")
	if err := node.Publish(within(t, stepTime), mgid(group), []int{64, 64}, false); err != nil {
		t.Fatal(err)
	}
	frames := framesFrom(t, wire, nodeIP, 2)
	return frames[0], frames[1]
}

// framesFrom ends a capture and returns the RoCE frames of one sender in it.
func framesFrom(t *testing.T, wire *Capture, ip string, want int) [][]byte {
	t.Helper()
	all, err := wire.Stop()
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, f := range all {
		if m, ok := parseMessage(f.Data); ok && m.Src.String() == ip {
			frames = append(frames, f.Data)
		}
	}
	if len(frames) != want {
		t.Fatalf("%d messages of %s on the wire, want %d", len(frames), ip, want)
	}
	return frames
}

// injectIntoBridge has a host send one message, and sends copies of its frame again, damaged and undamaged.
func injectIntoBridge(t *testing.T, c *Causeway, node *IBNode, host Peer, group string) int {
	t.Helper()
	wire := startCapture(t, "tapA", "")
	receiveOne(t, node, host, "--qpn 0xffffff --to "+group)
	sent := framesFrom(t, wire, host.IP, 1)[0]
	damaged := damages(sent)
	before, err := c.Metrics(within(t, stepTime))
	if err != nil {
		t.Fatal(err)
	}
	frames := slices.Concat([][]byte{sent}, damaged, [][]byte{rerouted(sent)})
	r, _, _ := theRig(t)
	if err := r.Inject(portPeer, frames...); err != nil {
		t.Fatal(err)
	}
	awaitMetrics(t, c, func(m Metrics) error {
		since := m.Since(before)
		drops, _ := withoutNoise(since.Drops(roceToIB))
		if n := since.Of(roceToIB, "packets_sent_total"); n != 2 || len(drops) != 1 || drops["icrc"] != uint64(len(damaged)) {
			return fmt.Errorf("%d sent, dropped %v; want 2 and icrc: %d", n, drops, len(damaged))
		}
		return nil
	})
	if _, err := node.ReceiveN(within(t, stepTime), 2); err != nil {
		t.Error(err)
	}
	return len(frames)
}
