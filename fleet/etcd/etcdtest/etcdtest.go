// SPDX-License-Identifier: Apache-2.0

// Package etcdtest starts etcd for tests of fleets.
package etcdtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Command is how one of etcd's servers is started, by its name; cluster has all as NAME=PEER-URL, with commas.
func Command(name, data, client, peer, cluster string) []string {
	return []string{"etcd", "--name", name, "--data-dir", data, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster}
}

// Prompt is what docs/etcd.md has voters of a fleet do: miss a leader after 250 ms.
var Prompt = []string{"--heartbeat-interval", "50", "--election-timeout", "250"}

// Dir returns a folder of the test's for the data of etcd's servers: in memory, if it can be, because a server waits for its disk
// with each write, and stops leading while others keep that busy.
func Dir(t testing.TB) string {
	t.Helper()
	const memory, isMemory = "/dev/shm", 0x01021994 // TMPFS_MAGIC
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Type != isMemory {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "etcdtest")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Start starts one server until the test ends: Debian's, 3.4, the oldest that a fleet may use.
func Start(t *testing.T) (url string, server *os.Process) {
	t.Helper()
	url, start := New(t)
	return url, start()
}

// New returns how a server is started until the test ends, and again when it was killed, with what it had.
func New(t *testing.T) (url string, start func() *os.Process) {
	t.Helper()
	url, _, start = NewIn(t)
	return url, start
}

// NewIn is New, and returns the folder of the server's data.
func NewIn(t *testing.T) (url, data string, start func() *os.Process) {
	t.Helper()
	var urls [2]string
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = "http://" + l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dir := Dir(t)
	data = filepath.Join(dir, "data")
	words := Command("one", data, urls[0], urls[1], "one="+urls[1])
	return urls[0], data, func() *os.Process {
		t.Helper()
		log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(words[0], words[1:]...)
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // killed
			if text, _ := os.ReadFile(log.Name()); t.Failed() {
				t.Logf("etcd logged\n%s", text)
			}
		})
		return c.Process
	}
}
