// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"
)

// Config says which etcd, and as whom.
type Config struct {
	Endpoints []string    // URLs of all its servers
	TLS       *tls.Config // nil: without
	User      string      // "": without a password
	Password  string
}

// What gRPC has to say of connections it writes to standard error, between the lines of the bridge's log. Whoever asks etcd gets to know
// it by the call that fails.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// Dial returns a client that connects by itself, again and again: it does not fail because nobody answers.
func Dial(c Config) (*clientv3.Client, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints; write at least one, as in https://10.0.0.1:2379")
	}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("etcd: endpoint %q is no URL of a server; write it as https://10.0.0.1:2379", e)
		}
		if u.Scheme == "https" && c.TLS == nil {
			return nil, fmt.Errorf("etcd: endpoint %q wants TLS; name the CA's certificate", e)
		}
	}
	const often = 7 * time.Second // etcd's servers end a connection that asks them more often than each 5 seconds, by their clocks
	// A connection that was lost is tried again within half a second, and not two minutes: a fleet stands still until then.
	again := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	return clientv3.New(clientv3.Config{Endpoints: c.Endpoints, TLS: c.TLS, Username: c.User, Password: c.Password,
		DialTimeout: time.Second, DialKeepAliveTime: often, DialKeepAliveTimeout: time.Second, PermitWithoutStream: true, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: time.Second})}})
}

// LoadTLS reads the certificate of the authority for etcd's servers, and that of this client, with its key, if it has one.
// It returns nil where no authority is named.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", ca)
	}
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
