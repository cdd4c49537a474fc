// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"causeway/app/segment"
	"causeway/config"
)

// withoutIPv6 makes a namespace in which IPv6 is disabled, as in some containers.
func withoutIPv6() (netns.NsHandle, error) {
	ns, err := segment.NewNamespace()
	if err != nil {
		return ns, err
	}
	return ns, segment.In(ns, func() error {
		var errs []error
		for _, which := range []string{"all", "default"} {
			errs = append(errs, os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0))
		}
		return errors.Join(errs...)
	})
}

// TestCapturesFolder checks what is said of a folder that cannot be made.
func TestCapturesFolder(t *testing.T) {
	const want = "demo: -pcap /dev/null/x/y: the folder cannot be made: /dev/null: not a directory; name another"
	if _, _, err := captures("/dev/null/x/y"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if roce, ib, err := captures(t.TempDir() + "/a/b"); err != nil || !strings.HasSuffix(roce, "/a/b/roce.pcap") || !strings.HasSuffix(ib, "/a/b/ib.pcap") {
		t.Errorf("%q, %q, %v", roce, ib, err)
	}
}

func needNamespaces(t *testing.T) {
	t.Helper()
	ns, err := segment.NewNamespace()
	switch {
	case err == nil:
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
	case os.Getenv("CI") == "true":
		t.Fatalf("CI must be able to make network namespaces: %v", err)
	default:
		t.Skipf("this test makes network namespaces, and cannot: %v; run it as root", err)
	}
}

// TestWithoutIPv6 checks that the IPv6 flow is left out, that this is reported, and that the rest works. It starts the
// one bridge that this process can have.
func TestWithoutIPv6(t *testing.T) {
	needNamespaces(t)
	tb := &testbed{}
	for _, step := range []func() error{
		tb.makeSegment,
		func() error { return tb.makeHosts(withoutIPv6, withoutIPv6) },
		func() error { return tb.makeSubnet("") },
	} {
		if err := step(); err != nil {
			t.Fatal(errors.Join(err, tb.close()))
		}
	}
	var out bytes.Buffer
	ok, err := tb.show(t.Context(), Options{Duration: time.Second, JSON: true, Out: &out})
	if err := errors.Join(err, tb.close()); err != nil || !ok {
		t.Fatalf("%v, %v\n%s", ok, err, out.String())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Flows) != 3 || !slices.Contains(r.Notes, noIPv6) || strings.Contains(out.String(), "fd09::") {
		t.Errorf("%s", out.String())
	}
}

// TestConfig checks that the demonstration's configuration has no problems and no remarks.
func TestConfig(t *testing.T) {
	cfg, err := config.Parse("demo", []byte((&testbed{}).configFile()))
	if err != nil || len(cfg.Notes) != 0 || len(cfg.Groups) != 2 || len(cfg.Hosts) != 2 {
		t.Errorf("%+v, %v", cfg, err)
	}
}
