// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// firstStart returns how a voter without data begins, in etcd's words. A voter that had data must not begin anew under
// its old identity: it would not know what it has voted for, and the same could be decided twice.
//
//	no other answers, or those that do are new, too ─▶ new
//	they expect this one, after -replace, or late    ─▶ existing
//	they know this one with data, or not at all      ─▶ an error
func (c *settings) firstStart() (string, error) {
	if wal.Exist(filepath.Join(c.Data, "member", "wal")) {
		return embed.ClusterStateFlagNew, nil // it has data, and this does not count
	}
	var others []string
	for _, m := range c.Member {
		if m.Name != c.Name {
			others = append(others, m.Peer)
		}
	}
	trip, err := rafthttp.NewRoundTripper(c.Peers.server(), time.Second)
	if err != nil {
		return "", err
	}
	known, err := etcdserver.GetClusterFromRemotePeers(zap.NewNop(), others, trip)
	if err != nil || !slices.ContainsFunc(known.Members(), hasRun) {
		return embed.ClusterStateFlagNew, nil
	}
	all := known.Members()
	own := slices.IndexFunc(all, func(m *membership.Member) bool { return slices.Contains(m.PeerURLs, c.self().Peer) })
	switch {
	case own < 0:
		return "", fmt.Errorf("the other voters do not expect %s at %s; %s", c.Name, c.self().Peer, c.replaceIt())
	case hasRun(all[own]):
		return "", fmt.Errorf("data %q is empty, and the other voters wait for %s with the data that it had; bring that back, or %s", c.Data, c.Name, c.replaceIt())
	}
	return embed.ClusterStateFlagExisting, nil
}

// hasRun reports whether a voter has served: then it has told the others where.
func hasRun(m *membership.Member) bool { return len(m.ClientURLs) > 0 }

// replaceIt says how this voter is replaced.
func (c *settings) replaceIt() string {
	return fmt.Sprintf("run causeway-etcd -config FILE -replace %s on one of them, with the same [[member]]s, and start this one again", c.Name)
}
