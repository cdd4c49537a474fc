// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	recordDir = "../../lcore/frame/testdata/kernel"
	// recordMost keeps the repository small.
	recordMost = 400 << 10
)

// recording is one file of the kernel's own frames, captured at guest A.
type recording struct {
	file  string // without .pcap
	about string
	least int // RoCE messages expected, at the least
	run   func(ctx context.Context, a, b *Guest) error
}

// exchange records a ping-pong from B to A and back.
func exchange(kind string, x Exchange) func(context.Context, *Guest, *Guest) error {
	return func(ctx context.Context, a, b *Guest) error {
		server, client := peers(a, b, kind)
		_, err := PingPong(ctx, server, client, x)
		return err
	}
}

// publish records messages from B to a group that A has joined.
func publish(kind, group string, x Exchange) func(context.Context, *Guest, *Guest) error {
	return func(ctx context.Context, a, b *Guest) error {
		receiver, sender := peers(a, b, kind)
		_, err := Publish(ctx, receiver, sender, group, x)
		return err
	}
}

func mckey(kind, group string) func(context.Context, *Guest, *Guest) error {
	return func(ctx context.Context, a, b *Guest) error {
		receiver, sender := peers(a, b, kind)
		return Mckey(ctx, receiver, sender, group)
	}
}

func udaddy(kind, more string) func(context.Context, *Guest, *Guest) error {
	return func(ctx context.Context, a, b *Guest) error {
		server, client := peers(a, b, kind)
		return Udaddy(ctx, server, client, more)
	}
}

// unresolved flushes both guests' neighbour entries first, so that ARP or ND comes before the messages.
func unresolved(run func(context.Context, *Guest, *Guest) error) func(context.Context, *Guest, *Guest) error {
	return func(ctx context.Context, a, b *Guest) error {
		for _, g := range []*Guest{a, b} {
			if err := g.Must(ctx, "ip neigh flush all; ip -6 neigh flush all"); err != nil {
				return err
			}
		}
		return run(ctx, a, b)
	}
}

// rejected records a request for a service that nobody offers.
func rejected(ctx context.Context, a, b *Guest) error {
	out, exit, err := b.Run(ctx, "udaddy -b 10.9.0.2 -s 10.9.0.1")
	if err == nil && exit == 0 {
		err = fmt.Errorf("udaddy found a service that nobody offers: %s", out)
	}
	return err
}

// pingPongProgram records libibverbs' own example, which needs its GID at once, and its peer's MAC address within the
// second that the kernel waits for it.
func pingPongProgram(ctx context.Context, a, b *Guest) error {
	for _, x := range []struct {
		g         *Guest
		own, peer string
	}{{a, "10.9.0.1", "10.9.0.2"}, {b, "10.9.0.2", "10.9.0.1"}} {
		if err := x.g.Until(ctx, hasGID(x.own)+" && ping -q -c 1 -W 1 "+x.peer+" >/dev/null"); err != nil {
			return err
		}
	}
	const command = "ibv_ud_pingpong -d rxe0 -n 4 -s 64 -g $(cd /sys/class/infiniband/rxe0/ports/1/gids && grep -ls ffff:0a09 *)"
	server, err := a.Start(command)
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := a.Until(ctx, "grep -q :4853 /proc/net/tcp /proc/net/tcp6"); err != nil { // port 18515
		return err
	}
	if err := b.Must(ctx, command+" 10.9.0.1"); err != nil {
		return err
	}
	out, exit, err := server.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("ibv_ud_pingpong: exit code %d: %s", exit, out)
	}
	return err
}

var recordings = []recording{
	{"ud_v4", "UD over IPv4, after ARP", 6, unresolved(exchange("v4", Exchange{Count: 3, Sizes: "64"}))},
	{"ud_v6", "UD over IPv6, after neighbour discovery", 6, unresolved(exchange("v6", Exchange{Count: 3, Sizes: "64"}))},
	{"ud_v6_link_local", "UD between link-local addresses", 6, exchange("v6 link local", Exchange{Count: 3, Sizes: "64"})},
	{"ud_vlan", "UD over IPv4 on VLAN 100, priority 3", 6, unresolved(exchange("vlan", Exchange{Count: 3, Sizes: "64"}))},
	{"ud_vlan_v6", "UD over IPv6 on VLAN 100, priority 3", 6, unresolved(exchange("vlan v6", Exchange{Count: 3, Sizes: "64"}))},
	{"ud_lengths", "payloads of 0 to 9 and 61 to 65 bytes: pad 0 to 3", 30,
		exchange("v4", Exchange{Count: 15, Sizes: "0,1,2,3,4,5,6,7,8,9,61,62,63,64,65"})},
	{"ud_lengths_v6", "the same over IPv6", 30,
		exchange("v6", Exchange{Count: 15, Sizes: "0,1,2,3,4,5,6,7,8,9,61,62,63,64,65"})},
	{"ud_imm", "immediate data 0xa1b2c3d4, payloads of 0 to 3 and 64 bytes", 10,
		exchange("v4", Exchange{Count: 5, Sizes: "0,1,2,3,64", Args: "--imm 0xa1b2c3d4"})},
	{"ud_4096", "netdev MTU 4200: payloads of 4093 to 4096 bytes", 8, exchange("v4", Exchange{Count: 4, Sizes: "4093,4094,4095,4096"})},
	{"ud_4096_v6_imm", "4096 bytes over IPv6 on VLAN 100 with immediate data: the longest frame", 4,
		exchange("vlan v6", Exchange{Count: 2, Sizes: "4096", Args: "--imm 1"})},
	{"ud_tos", "TOS 0x69 and TTL 3 from B", 4, exchange("v4", Exchange{Count: 2, Sizes: "32", Args: "--tclass 0x69 --hop 3"})},
	{"ud_tos_v6", "traffic class 0x69 and hop limit 3 from B", 4, exchange("v6", Exchange{Count: 2, Sizes: "32", Args: "--tclass 0x69 --hop 3"})},
	{"ud_pingpong", "libibverbs' ibv_ud_pingpong", 8, pingPongProgram},
	{"mckey", "rdma_cm multicast to 239.1.2.3: IGMPv3 and data", 10, mckey("v4", "239.1.2.3")},
	{"mckey_vlan", "the same on VLAN 100, group 239.1.2.4", 10, mckey("vlan", "239.1.2.4")},
	{"mcast_lengths", "multicast of 0 to 5 and 1024 bytes with immediate data, by verbs alone", 7,
		publish("v4", "239.1.2.5", Exchange{Count: 7, Sizes: "0,1,2,3,4,5,1024", Args: "--imm 5"})},
	{"mcast_v6", "IPv6 multicast to ff0e::4242 by verbs alone, MLDv2 by a socket", 3,
		publish("v6", "ff0e::4242", Exchange{Count: 3, Sizes: "64"})},
	{"sidr", "rdma_cm UD: SIDR request and reply, then data with immediate", 22, unresolved(udaddy("v4", ""))},
	{"sidr_v6", "the same over IPv6", 22, udaddy("v6", "")},
	{"sidr_vlan", "the same on VLAN 100", 22, udaddy("vlan", "")},
	{"sidr_tos", "the same with rdma_cm's TOS 104", 6, udaddy("v4", "-t 104 -C 2")},
	{"sidr_odd", "the same with 63 bytes", 6, udaddy("v4", "-S 63 -C 2")},
	{"sidr_unserved", "a SIDR request for a service nobody offers, rejected", 2, rejected},
}

// TestRecordKernelFrames writes the captures that lcore/frame's tests read. It runs in each `make e2e`, into a
// temporary folder, so that a change in what the kernel sends is noticed. With -record the files are kept.
func TestRecordKernelFrames(t *testing.T) {
	r, a, b := theRig(t)
	proof := proves(t, "what the kernel sends: each ICRC is right")
	dir := t.TempDir()
	release, _, err := a.Run(within(t, stepTime), "uname -srvm")
	if err != nil {
		t.Fatal(err)
	}
	index := "# Frames of the Linux kernel\n\nRecorded at host A (10.9.0.1, fd09::1; VLAN 100: 10.100.0.1, fd64::1); B is `.2`. Both are\n" +
		strings.TrimSpace(release) + "\nwith rdma_rxe and Debian's rdma-core. To record them again: `go test -tags e2e -run TestRecordKernelFrames -record ./app/e2e`.\n" +
		"Payloads of the ud_ and mcast_ files are test messages of ibside/stamp.\n\n" +
		"| file | what | frames | of them RoCE |\n|---|---|---|---|\n"
	for _, rec := range recordings {
		t.Run(rec.file, func(t *testing.T) {
			frames, messages := rec.capture(t, r, a, b, dir)
			proof.add(messages)
			index += fmt.Sprintf("| %s.pcap | %s | %d | %d |\n", rec.file, rec.about, frames, messages)
		})
	}
	if t.Failed() {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(index), 0o644); err != nil {
		t.Fatal(err)
	}
	keepRecordings(t, dir)
}

// capture records one file and checks it: enough messages, each ICRC right.
func (rec recording) capture(t *testing.T, r *Rig, a, b *Guest, dir string) (frames, messages int) {
	ctx := within(t, stepTime)
	c, err := r.Capture(ctx, "tapA", filepath.Join(dir, rec.file+".pcap"), "not tcp and not icmp")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.run(ctx, a, b); err != nil {
		t.Error(err)
	}
	all, err := c.Stop()
	if err != nil {
		t.Fatal(err)
	}
	found := Messages(all)
	if len(found) < rec.least {
		t.Errorf("%d RoCE messages among %d frames, at least %d were expected", len(found), len(all), rec.least)
	}
	for i, m := range found {
		if !m.ICRCGood {
			t.Errorf("message %d: its ICRC is wrong: %+v", i+1, m)
		}
	}
	return len(all), len(found)
}

func keepRecordings(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	contents := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contents[filepath.Base(file)] = b
		total += len(b)
	}
	if total > recordMost {
		t.Fatalf("the recordings have %d bytes, more than %d", total, recordMost)
	}
	if !*record {
		return
	}
	if err := os.MkdirAll(recordDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range contents {
		if err := os.WriteFile(filepath.Join(recordDir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files, %d bytes in %s", len(contents), total, recordDir)
}
