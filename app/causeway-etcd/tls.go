// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// check checks that the files belong together and can be read.
func (f tlsFiles) check(who string) error {
	switch {
	case f.Cert != "" && f.Key == "":
		return fmt.Errorf("%s: cert is %q, and key is missing; write the file of its private key", who, f.Cert)
	case f.Key != "" && f.Cert == "":
		return fmt.Errorf("%s: key is %q, and cert is missing; write the file of its certificate", who, f.Key)
	case f.CA != "" && f.Cert == "":
		return fmt.Errorf("%s: ca is %q, and cert and key are missing; write them, and https:// URLs", who, f.CA)
	case f.Cert == "":
		return nil
	}
	for _, one := range []struct{ key, path string }{{"cert", f.Cert}, {"key", f.Key}, {"ca", f.CA}} {
		if one.path == "" {
			continue
		}
		if !filepath.IsAbs(one.path) {
			return fmt.Errorf("%s: %s %q is not a whole path; write it from / on", who, one.key, one.path)
		}
		if err := readable(one.path); err != nil {
			return fmt.Errorf("%s: %s %q: %w", who, one.key, one.path, err)
		}
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("%s: cert %q and key %q are not a certificate with its key, both in PEM: %w; write two files that belong together", who, f.Cert, f.Key, err)
	}
	if err := usable(pair.Leaf); err != nil {
		return fmt.Errorf("%s: cert %q %w", who, f.Cert, err)
	}
	if _, err := f.roots(); err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	return nil
}

// readable says why a file cannot be read.
func readable(path string) error {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		return fmt.Errorf("this is no file of at most %d bytes; name the one that has it in PEM", maxFile)
	}
	if err == nil {
		_, err = os.ReadFile(path)
	}
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file; write it, or name another")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("this user may not read it; let the group causeway-etcd read it")
	case errors.As(err, &cause):
		return fmt.Errorf("%w; name a file that can be read", cause.Err)
	}
	return err
}

// usable says why a certificate cannot be both a server's and a client's, which voters' are: etcd calls itself, and each
// voter calls the others.
func usable(c *x509.Certificate) error {
	has := map[x509.ExtKeyUsage]bool{}
	for _, u := range c.ExtKeyUsage {
		has[u] = true
	}
	if len(has) > 0 && !has[x509.ExtKeyUsageAny] && !(has[x509.ExtKeyUsageServerAuth] && has[x509.ExtKeyUsageClientAuth]) {
		return errors.New("is not for servers and clients alike; make one with extendedKeyUsage = serverAuth, clientAuth")
	}
	return nil
}

// roots returns the authority's certificates; where there is none, the own certificate is its own authority.
func (f tlsFiles) roots() (*x509.CertPool, error) {
	path := f.CA
	if path == "" {
		path = f.Cert
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca %q has no certificate in PEM; name the authority's certificate", path)
	}
	return pool, nil
}

// server returns what etcd takes to serve with these files. It does not compare the address that a voter calls from with
// its certificate, which names the one where it is called: a machine with several may call from another.
func (f tlsFiles) server() transport.TLSInfo {
	return transport.TLSInfo{CertFile: f.Cert, KeyFile: f.Key, TrustedCAFile: f.CA, ClientCertAuth: f.CA != "", SkipClientSANVerify: true}
}

// client returns what a client takes to reach a server with these files; nil without TLS.
func (f tlsFiles) client() (*tls.Config, error) {
	if f.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	pool, err := f.roots()
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
