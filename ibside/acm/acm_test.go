// SPDX-License-Identifier: Apache-2.0

package acm_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"causeway/ibside/acm"
	"causeway/ibside/ib"
)

// gid returns the GID of a port of the default subnet.
func gid(guid ib.GUID) ib.GID { return ib.GIDFromGUID(0xfe80<<48, guid) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	bridge = acm.Port{Name: "causeway-1", GUID: 0x0002c90300000003, LID: 3}
	node   = acm.Port{Name: "a, name\nto split", GUID: 7, LID: 7, SL: 2}
	path   = acm.Path{MTU: ib.MTU4096, Rate: 16}
)

// TestFiles compares each file, without its comments.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(io.Writer) error
		want  string
	}{
		{"hosts", func(w io.Writer) error {
			return acm.WriteHosts(w, []acm.Host{{addr("10.9.0.1"), gid(3)}, {addr("fd09::1"), ib.GIDFromAddr(addr("10.9.0.1"))}})
		}, "10.9.0.1 fe80::3\nfd09::1 ::ffff:10.9.0.1\n"},
		{"routes", func(w io.Writer) error { return acm.WriteRoutes(w, bridge, []acm.Port{node}, path) },
			"Channel Adapter 0x0000000000000007, base LID 7, LMC 0, a--name-to-split\n3 : 2 : 5 : 16\n" +
				"Channel Adapter 0x0002c90300000003, base LID 3, LMC 0, causeway-1\n7 : 2 : 5 : 16\n"},
		{"options", func(w io.Writer) error { return acm.WriteOptions(w, "/etc/rdma", true) },
			"addr_prot acm\naddr_timeout -1\naddr_preload acm_hosts\naddr_data_file /etc/rdma/ibacm_hosts.data\n" +
				"route_prot sa\nroute_timeout -1\nroute_preload opensm_full_v1\nroute_data_file /etc/rdma/ibacm_route.data\n"},
		{"options without routes", func(w io.Writer) error { return acm.WriteOptions(w, "/x", false) },
			"addr_prot acm\naddr_timeout -1\naddr_preload acm_hosts\naddr_data_file /x/ibacm_hosts.data\nroute_prot sa\nroute_timeout -1\n"},
		{"endpoints", func(w io.Writer) error {
			return acm.WriteEndpoints(w, []acm.Endpoint{{"n1", "mlx5_0", 1, ib.PKeyDefault}, {"n1-p2", "mlx5_1", 2, 0x8001}})
		}, "n1 mlx5_0 1 default\nn1-p2 mlx5_1 2 0x8001\n"},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := uncommented(b.String()); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

func uncommented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestRejected checks that input that ibacm would misread is an error.
func TestRejected(t *testing.T) {
	long := "/" + strings.Repeat("x", 120)
	for name, err := range map[string]error{
		"no address":        acm.WriteHosts(io.Discard, []acm.Host{{GID: gid(3)}}),
		"an address's zone": acm.WriteHosts(io.Discard, []acm.Host{{addr("fe80::1%eth0"), gid(3)}}),
		"IPv4 in IPv6":      acm.WriteHosts(io.Discard, []acm.Host{{addr("::ffff:10.9.0.1"), gid(3)}}),
		"no LID":            acm.WriteRoutes(io.Discard, acm.Port{GUID: 3}, nil, path),
		"an MLID":           acm.WriteRoutes(io.Discard, acm.Port{GUID: 3, LID: 0xc000}, nil, path),
		"one LID twice":     acm.WriteRoutes(io.Discard, bridge, []acm.Port{node, {GUID: 8, LID: 7}}, path),
		"the bridge's LID":  acm.WriteRoutes(io.Discard, bridge, []acm.Port{{GUID: 8, LID: 3}}, path),
		"a long folder":     acm.WriteOptions(io.Discard, long, true),
		"a blank":           acm.WriteOptions(io.Discard, "/my files", true),
		"a line's end":      acm.WriteOptions(io.Discard, "/my\nfiles", true),
		"an address":        acm.WriteEndpoints(io.Discard, []acm.Endpoint{{"10.9.0.7", "mlx5_0", 1, ib.PKeyDefault}}),
		"two words":         acm.WriteEndpoints(io.Discard, []acm.Endpoint{{"a b", "mlx5_0", 1, ib.PKeyDefault}}),
		"no name":           acm.WriteEndpoints(io.Discard, []acm.Endpoint{{"", "mlx5_0", 1, ib.PKeyDefault}}),
		"a full disk":       acm.WriteHosts(full{}, nil),
	} {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
