// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

var askerIP, serverIP = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.7")

// twoPorts returns two ports of a software subnet, and their GIDs.
func twoPorts(t *testing.T) (ends []*services, gids []ib.GID) {
	t.Helper()
	var cfg fabric.Config
	f := newSubnet(t, &cfg)
	t.Cleanup(func() { f.Close() })
	for i := range 2 {
		h := fabric.NewHCA(attachTo(t, f, cfg.Socket, fmt.Sprint(i), ib.GUID(10+i)))
		t.Cleanup(func() { h.Close() })
		sa := fabric.NewSAClient(h)
		gids = append(gids, h.Info().GID)
		cm := fabric.NewCM(h, fabric.CMConfig{Timeout: 10 * time.Millisecond, Tries: 3})
		ends = append(ends, &services{cm, func(ctx context.Context, dgid ib.GID, _ ib.PKey) (ibside.Path, error) {
			p, err := sa.Path(ctx, dgid)
			return ibside.Path{LID: p.DLID, SL: p.SL}, err
		}})
	}
	return ends, gids
}

// TestServices connects two ports of the software subnet.
func TestServices(t *testing.T) {
	ends, gids := twoPorts(t)
	connect := func(gid ib.GID, port uint16) (ibside.ServiceAnswer, error) {
		return ends[0].Connect(t.Context(), ibside.ServiceConnect{
			From: askerIP, To: serverIP, ToGID: gid, SrcPort: 9, Port: port, PKey: 0xffff, Private: []byte("please"),
		})
	}
	if _, err := connect(gids[1], 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Serve: %v", err)
	}
	serve := func(r ibside.ServiceRequest) {
		switch {
		case r.From != askerIP || r.To != serverIP || r.SrcPort != 9 || r.PKey != 0xffff || string(r.Private[:6]) != "please":
			t.Errorf("the request came as %+v", r)
		case r.Port == 100:
			_ = r.Answer(ibside.ServiceAnswer{QPN: 5, QKey: 6, Private: []byte("yes")})
		default:
			_ = r.Reject(ib.SIDRStatusNoQP, []byte("no"))
		}
	}
	if err := ends[1].Serve([]ibside.PortRange{{First: 100, Last: 101}}, serve); err != nil {
		t.Fatal(err)
	}
	if a, err := connect(gids[1], 100); err != nil || a.QPN != 5 || a.QKey != 6 || string(a.Private[:4]) != "yes\x00" {
		t.Errorf("%+v, %v", a, err)
	}
	for port, want := range map[uint16]uint8{101: ib.SIDRStatusNoQP, 102: ib.SIDRStatusUnsupported} {
		_, err := connect(gids[1], port)
		var rejected *ibside.Rejected
		if !errors.As(err, &rejected) || rejected.Status != want || port == 101 && string(rejected.Private[:3]) != "no\x00" {
			t.Errorf("port %d: %v, want status %d", port, err, want)
		}
	}
	if _, err := connect(ib.GID{1}, 100); err == nil {
		t.Error("connected to a GID that no port has")
	}
	if err := ends[1].Serve(nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := connect(gids[1], 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end: %v", err)
	}
}
