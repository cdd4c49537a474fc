// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/app/bridge"
	"causeway/app/command"
	"causeway/app/logs"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// liveVariable makes this test binary run a bridge with traffic, with the configuration file that it names, because
// DPDK can start only once in a process. It ends when its standard input does.
const liveVariable = "CAUSEWAY_WEB_LIVE"

func TestMain(m *testing.M) {
	if file := os.Getenv(liveVariable); file != "" {
		if err := live(file); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	stallLimit = 100 * time.Millisecond // so that the tests of health do not wait
	os.Exit(m.Run())
}

const liveFile = `[bridge]
name = "live"
[roce]
port = "pcap:DIR/in.pcap,DIR/out.pcap"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "fabric:DIR/fabric.toml"
[[ib_port]]
port = "fabric:"
name = "b"
[workers]
lcores = [0]
idle = "sleep"
memory_mib = 64
mbufs = 2048
rx_descs = 256
tx_descs = 512
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[group]]
ip = "239.1.2.3"
pgm = true
[[range]]
ip = "239.2.0.0/24"
[[service]]
port = 7174
`

const liveSubnet = `[[node]]
name = "echo"
guid = 7
qpn = 0x77
role = "echo"
`

// live runs a bridge and delivers frames to it.
func live(file string) (err error) {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	pipe := filepath.Join(filepath.Dir(file), "in.pcap")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return err
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // for reading, too: it need not wait for the bridge to open it
	if err != nil {
		return err
	}
	defer w.Close()
	go traffic(w)
	log, control := logs.New(config.Log{Level: "info"}, io.Discard)
	h, err := bridge.Build(cfg, bridge.Options{Log: log, NoHuge: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served, env := make(chan error, 1), &command.Env{Bridge: h, Began: time.Now(), Sampler: command.NewSampler(h)}
	go env.Sampler.Run(ctx)
	go func() {
		served <- Serve(ctx, l, h, Options{Name: cfg.Name, Version: "test", DPDK: dpdk.Version(), Started: env.Began, Env: env, Events: control.Events, LogLost: control.Unwritten,
			Config: func() *config.Config { return cfg }, Draining: func() bool { return ctx.Err() != nil }})
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends, for whatever reason
		stop()
	}()
	err = h.Run(ctx, func() { fmt.Println(l.Addr()) })
	return errors.Join(err, <-served)
}

// traffic writes frames to a capture "file": some to the echo, some to the group, some damaged. It writes whole bursts,
// because the driver waits for one.
func traffic(w io.Writer) {
	const magic, version, longest, ethernet, burst = 0xa1b2c3d4, 2 | 4<<16, 65535, 1, 64
	words := func(all ...uint32) (b []byte) {
		for _, w := range all {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	p := roce.Packet{
		Version: 2, Src: frame.MAC{2, 0, 0, 0, 0, 1}, Dst: frame.MAC{0x02, 'p', 'c', 'a', 'p', 0}, SrcIP: netip.MustParseAddr("10.9.0.1"),
		DstIP: netip.MustParseAddr("10.9.0.7"), HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault, DestQP: 0x77,
		QKey: ib.QKeyRDMAUDP, SrcQP: 0x55, Payload: bytes.Repeat([]byte("x"), 200),
	}
	toNode := p.AppendTo(nil)
	damaged := bytes.Clone(toNode)
	damaged[len(damaged)-1] ^= 1
	p.DstIP, p.DestQP = netip.MustParseAddr("239.1.2.3"), ib.QPMulticast
	p.Dst = frame.GroupMAC(p.DstIP)
	toGroup := p.AppendTo(nil)
	var records []byte
	for i := range burst {
		f := [][]byte{toNode, toNode, toGroup, damaged}[i%4]
		records = append(append(records, words(0, 0, uint32(len(f)), uint32(len(f)))...), f...)
	}
	_, err := w.Write(words(magic, version, 0, 0, longest, ethernet))
	for ; err == nil; time.Sleep(5 * time.Millisecond) {
		_, err = w.Write(records) // fails when the pipe is closed
	}
}

// liveBridge starts a bridge with traffic and returns where it serves, when it is ready.
func liveBridge(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "causeway.toml")
	for name, text := range map[string]string{file: liveFile, filepath.Join(dir, "fabric.toml"): liveSubnet} {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), liveVariable+"="+file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(8*time.Minute, func() { _ = cmd.Process.Kill() }) // fails only if it has ended already
	t.Cleanup(func() {
		stdin.Close()
		rest, _ := io.ReadAll(stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the bridge: %v\n%s%s", err, rest, &stderr)
		}
		hung.Stop()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("the bridge did not become ready: %v, %s%s", err, line, &stderr)
	}
	return strings.TrimSpace(line)
}
