// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"causeway/app/logs"
)

// token is part of what a new group of voters has in common, and so of its id.
const token = "causeway"

// serve runs the server until a signal.
func serve(c *settings, out *logs.Output) error {
	log, control := logs.New(c.logOf(), out)
	defer control.Flush()
	signal.Ignore(syscall.SIGPIPE) // a voter does not end because nobody reads its log
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills a server that does not stop after the first
	notify(log, "STATUS=Waiting for a majority of the voters")
	state, err := c.firstStart()
	if err != nil {
		return err
	}
	var ends atomic.Bool
	etcd, err := embed.StartEtcd(c.etcd(state, zap.New(core{log, out.Flush, &ends})))
	if err != nil {
		return c.explained(err)
	}
	err = running(ctx, c, etcd, log)
	notify(log, daemon.SdNotifyStopping)
	select {
	case <-etcd.Server.ReadyNotify():
		moveLeader(etcd, log)
		ends.Store(true)
	default:
		etcd.Server.HardStop() // what listens for clients waits until it is ready, and Close waits for that
	}
	etcd.Close()
	if err == nil {
		log.Info("voter_stopped", "name", c.Name)
	}
	return err
}

// running reports that the server is ready, and waits for the end: of ctx, or by an error.
func running(ctx context.Context, c *settings, etcd *embed.Etcd, log *slog.Logger) error {
	ready := etcd.Server.ReadyNotify()
	for {
		select {
		case <-ready:
			ready = nil
			log.Info("voter_ready", "name", c.Name, "clients", c.Clients.Advertise, "peers", c.self().Peer, "data", c.Data)
			notify(log, daemon.SdNotifyReady+"\nSTATUS=Serving")
		case <-ctx.Done():
			return nil
		case err := <-etcd.Err():
			return fmt.Errorf("serving failed: %w", err)
		case <-etcd.Server.StopNotify():
			return fmt.Errorf("etcd has stopped: the lines above say why; when %s was replaced, it begins again with an empty %s", c.Name, c.Data)
		}
	}
}

// moveLeader has another voter lead, if this one does, so that nobody waits for an election.
func moveLeader(etcd *embed.Etcd, log *slog.Logger) {
	before := etcd.Server.Leader()
	if before != etcd.Server.MemberID() {
		return
	}
	if err := etcd.Server.TryTransferLeadershipOnShutdown(); err != nil {
		log.Warn("leader_not_moved", "error", err)
	} else if now := etcd.Server.Leader(); now != before {
		log.Info("leader_moved", "to", fmt.Sprint(now))
	}
}

// notify tells the service manager, if there is one. Package systemd does more, and knows the bridge.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("service_manager", "error", err)
	}
}

// etcd returns the settings in the form of etcd; state is what firstStart returns.
func (c *settings) etcd(state string, log *zap.Logger) *embed.Config {
	e := embed.NewConfig()
	e.Name, e.Dir = c.Name, c.Data
	e.ListenClientUrls, e.AdvertiseClientUrls = c.clientListen, c.clientAdvertise
	e.ListenPeerUrls, e.AdvertisePeerUrls = c.peerListen, c.peerAdvertise
	e.ListenMetricsUrls = c.metricsListen
	e.ClientTLSInfo, e.PeerTLSInfo = c.Clients.server(), c.Peers.server()
	e.InitialCluster, e.InitialClusterToken, e.ClusterState = c.initial(), token, state
	e.TickMs, e.ElectionMs = uint(c.heartbeat.Milliseconds()), uint(c.election.Milliseconds())
	e.AutoCompactionMode, e.AutoCompactionRetention = embed.CompactorModePeriodic, c.compact.String()
	e.QuotaBackendBytes = c.Store.Quota << 20
	e.EnableGRPCGateway = false // nobody uses it, and it serves requests as this server's own
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return e
}

// explained returns why the server does not start, with what to do where that is known.
func (c *settings) explained(err error) error {
	var at *net.OpError
	where := ""
	if errors.As(err, &at) && at.Addr != nil {
		where = at.Addr.String()
	}
	_, port, _ := net.SplitHostPort(where)
	text := oneLine(err.Error())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program listens at %s; write another port, or stop that program (ss -tlnp sport = :%s shows it)", where, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("no interface of this machine has the address of %s; write one that has (\"ip address\" lists them)", where)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("data %q: this user may not write there (%s); change its owner, or be the user that it belongs to", c.Data, text)
	case strings.Contains(text, "error validating peerURLs"):
		return fmt.Errorf("the other voters are not those of [[member]] (%s); write in all files the same", text)
	}
	return fmt.Errorf("etcd does not start: %s", text)
}
