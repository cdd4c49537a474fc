// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// bump is by how much a restored revision is above that of the snapshot: more than there can have been changes since, so
// that none comes twice, and what a client remembers of the future is not taken for the present.
const bump = 1 << 30

// saveSnapshot writes a snapshot of the voter on this machine, all or nothing.
func saveSnapshot(c *settings, to string, w io.Writer) error {
	if _, err := os.Stat(to); err == nil {
		return fmt.Errorf("-save %s: there is such a file already; name another", to)
	}
	secure, err := c.Clients.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	at := etcd.Config{Endpoints: []string{c.here()}, TLS: secure, DialTimeout: patience}
	m := snapshot.NewV3(zap.NewNop())
	probe, _, err := c.local() // the stream of a snapshot would wait for a server without an end
	if err != nil {
		return err
	}
	probe.Close()
	if _, err := m.Save(ctx, at, to); err != nil {
		return fmt.Errorf("-save %s: %s", to, brief(err))
	}
	said, err := m.Status(to)
	if err != nil {
		return fmt.Errorf("-save %s: it cannot be read back: %s", to, brief(err))
	}
	fmt.Fprintf(w, "%s: %d keys, revision %d, %.1f MiB\n", to, said.TotalKey, said.Revision, float64(said.TotalSize)/(1<<20))
	return nil
}

// restoreSnapshot makes the data directory of a snapshot. The voters that were restored of one snapshot are a group of
// their own: its hash is part of their id, so that a voter with other data cannot join them by mistake.
func restoreSnapshot(c *settings, from string, w io.Writer) error {
	sum, err := checksum(from)
	if err != nil {
		return fmt.Errorf("-restore %s: %w", from, err)
	}
	if left, err := os.ReadDir(c.Data); err == nil && len(left) > 0 {
		return fmt.Errorf("-restore %s: data %q is not empty; stop the voter, and move %s away", from, c.Data, filepath.Join(c.Data, "member"))
	}
	m := snapshot.NewV3(zap.NewNop())
	err = m.Restore(snapshot.RestoreConfig{
		SnapshotPath: from, Name: c.Name, OutputDataDir: c.Data, PeerURLs: []string{c.self().Peer},
		InitialCluster: c.initial(), InitialClusterToken: fmt.Sprintf("%s-%x", token, sum),
		RevisionBump: bump, MarkCompacted: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("-restore %s: %s", from, brief(err)), os.RemoveAll(filepath.Join(c.Data, "member")))
	}
	if err := sameOwner(c.Data); err != nil {
		return fmt.Errorf("-restore %s: %w", from, err)
	}
	fmt.Fprintf(w, "%s is restored in %s; restore the other voters of the same file, then start all\n", c.Name, c.Data)
	return nil
}

// checksum returns the hash at a snapshot's end.
func checksum(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.New("it cannot be read; name a file that -save has written")
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size%512 != sha256.Size { // pages, and the hash
		return nil, fmt.Errorf("its %d bytes are no snapshot; name a file that -save has written, whole", size)
	}
	sum := make([]byte, sha256.Size)
	_, err = f.ReadAt(sum, size-sha256.Size)
	return sum, err
}

// sameOwner gives what is in a folder to the folder's owner, so that root may restore for the user that serves.
func sameOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Getuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
