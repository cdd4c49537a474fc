// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes one, and writes its certificate to a file.
func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.make(a.cert, nil, file, "")
	return a
}

// issue writes a certificate and its key, for loopback, with these uses.
func (a *authority) issue(cert, key string, uses ...x509.ExtKeyUsage) {
	a.t.Helper()
	a.make(&x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "voter"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(loopback())}, ExtKeyUsage: uses, KeyUsage: x509.KeyUsageDigitalSignature}, a, cert, key)
}

// make makes a certificate, by itself or by an authority, and writes it, and its key if that has a file.
func (a *authority) make(c *x509.Certificate, by *authority, certFile, keyFile string) *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{certFile, "CERTIFICATE", der}, {keyFile, "PRIVATE KEY", private}} {
		if f.name == "" {
			continue
		}
		if err := os.WriteFile(f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return key
}

// both are the uses of a voter's certificate.
var both = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// certified makes the rig's certificates, and returns the lines that name them.
func (r *rig) certified() string {
	r.t.Helper()
	in := func(name string) string { return filepath.Join(r.dir, name) }
	newAuthority(r.t, in("ca.crt")).issue(in("etcd.crt"), in("etcd.key"), both...)
	secure, err := tlsFiles{in("etcd.crt"), in("etcd.key"), in("ca.crt")}.client()
	if err != nil {
		r.t.Fatal(err)
	}
	r.secure = secure
	return fmt.Sprintf("cert = %q\nkey = %q\nca = %q\n", in("etcd.crt"), in("etcd.key"), in("ca.crt"))
}

// TestDocsCertificates runs the commands of docs/etcd.md that make certificates, and checks a configuration with them.
func TestDocsCertificates(t *testing.T) {
	page, err := os.ReadFile("../../docs/etcd.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is missing: apt-get install openssl")
	}
	_, script, found := strings.Cut(string(page), "\n\n       openssl req")
	script, _, _ = strings.Cut("openssl req"+script, "\n\n")
	dir := t.TempDir()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !found {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	files := "cert = \"DIR/10.9.0.2.crt\"\nkey = \"DIR/10.9.0.2.key\"\nca = \"DIR/ca.crt\"\n"
	if code, said := check(t, dir, fmt.Sprintf(small, "", "https://10.9.0.2:2380", "[peers]\n"+files+httpsClients+files)); code != exitOK {
		t.Error(said)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "10.9.0.2.crt"), filepath.Join(dir, "10.9.0.2.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots, err := tlsFiles{CA: filepath.Join(dir, "ca.crt")}.roots()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "10.9.0.2", Roots: roots, KeyUsages: both[1:]}); err != nil {
		t.Error(err)
	}
}

// refused reports whether a server closes a connection that brings no certificate.
func refused(at string, roots *x509.CertPool) bool {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", at, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	if err != nil {
		return true
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	_, err = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // with TLS 1.3 the refusal comes after the handshake
	}
	return err != nil
}
