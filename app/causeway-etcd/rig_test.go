// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"causeway/fleet/etcd/etcdtest"
)

// A rig is three voters on loopback, each a process, and a client of all.
type rig struct {
	t       *testing.T
	dir     string
	secure  *tls.Config // nil: without TLS
	clients []string    // URLs
	voters  []*process
	*etcd.Client
}

// names are the voters'.
var names = []string{"voter-a", "voter-b", "voter-c"}

// loopback returns an address that no other test's process uses, so that the ports that are free there stay free.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>14&63, pid>>7&127, 1+pid&127)
}

// given are the ports that freePorts has returned: what another test has not opened yet is not free.
var given sync.Map

// freePorts returns ports of the address that the kernel says are free.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for len(ports) < n {
		l, err := net.Listen("tcp", loopback()+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all are open until all are known
		port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		if _, is := given.LoadOrStore(port, true); !is {
			ports = append(ports, port)
		}
	}
	return ports
}

// newRig writes the files of three voters, with TLS between all or without, and with further lines, and starts them.
func newRig(t *testing.T, secure bool, more string) *rig {
	t.Helper()
	r := &rig{t: t, dir: etcdtest.Dir(t), voters: make([]*process, len(names))}
	scheme, files := "http", ""
	if secure {
		scheme, files = "https", r.certified()
	}
	ports := freePorts(t, 2*len(names))
	for i, name := range names {
		r.clients = append(r.clients, fmt.Sprintf("%s://%s:%s", scheme, loopback(), ports[i]))
		more += fmt.Sprintf("[[member]]\nname = %q\npeer = \"%s://%s:%s\"\n", name, scheme, loopback(), ports[len(names)+i])
	}
	for i, name := range names {
		r.write(i, fmt.Sprintf("name = %q\ndata = %q\n[clients]\nlisten = [%q]\n%s[peers]\n%s%s", name, r.data(i), r.clients[i], files, files, more))
	}
	for i := range names {
		r.start(i)
	}
	for _, p := range r.voters {
		p.awaitLine("voter_ready")
	}
	r.Client = r.client(r.clients...)
	return r
}

func (r *rig) file(i int) string { return filepath.Join(r.dir, names[i]+".toml") }
func (r *rig) data(i int) string { return filepath.Join(r.dir, names[i]) }

func (r *rig) write(i int, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(i), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// start starts a voter's process.
func (r *rig) start(i int) {
	r.t.Helper()
	r.voters[i] = launch(r.t, "-config", r.file(i))
}

// client returns a client of these URLs.
func (r *rig) client(at ...string) *etcd.Client {
	r.t.Helper()
	c, err := etcd.New(etcd.Config{Endpoints: at, TLS: r.secure, Logger: zap.NewNop(), DialTimeout: time.Second,
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// leader waits for a leader and returns its number. It asks the voters that run.
func (r *rig) leader() int {
	r.t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for i, at := range r.clients {
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			s, err := r.Status(ctx, at)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				return i
			}
		}
	}
	r.t.Fatal("no voter leads")
	return 0
}

// tryPut writes a key until a majority has it, and returns how long that took, and the revision.
func (r *rig) tryPut(key string) (took time.Duration, revision int64, err error) {
	for begun := time.Now(); took < within; took = time.Since(begun) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		done, wrong := r.Put(ctx, key, "value of "+key)
		cancel()
		if err = wrong; err == nil {
			return time.Since(begun), done.Header.Revision, nil
		}
	}
	return took, 0, err
}

// put writes a key and returns its revision.
func (r *rig) put(key string) int64 {
	r.t.Helper()
	_, revision, err := r.tryPut(key)
	if err != nil {
		r.t.Fatalf("%s is not written: %v", key, err)
	}
	return revision
}

// has checks that the voters' majority, or with options one voter, has these keys.
func (r *rig) has(c *etcd.Client, keys []string, options ...etcd.OpOption) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	got, err := c.Get(ctx, "", append(options, etcd.WithPrefix())...)
	if err != nil {
		r.t.Fatal(err)
	}
	values := map[string]string{}
	for _, kv := range got.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	for _, key := range keys {
		if values[key] != "value of "+key {
			r.t.Errorf("%s is %q: what was acknowledged is lost", key, values[key])
		}
	}
}

// awaitKeys waits until one voter by itself has as many keys.
func (r *rig) awaitKeys(i, n int) {
	r.t.Helper()
	one := r.client(r.clients[i])
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		got, err := one.Get(ctx, "", etcd.WithPrefix(), etcd.WithSerializable(), etcd.WithCountOnly())
		cancel()
		if err == nil && got.Count >= int64(n) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not have %d keys: %v, %v; its output:\n%v", names[i], n, got, err, &r.voters[i].stderr)
		}
	}
}

// tool runs the program on a voter's machine until its exit code is the right one: voters that get no CPU answer late. It
// returns what it prints.
func (r *rig) tool(code, i int, args ...string) string {
	r.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got, stdout, stderr := try(append([]string{"-config", r.file(i)}, args...)...)
		if got == code {
			return stdout + stderr
		}
		if time.Since(begun) > within {
			r.t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
		}
	}
}
