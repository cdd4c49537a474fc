// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/tables"
)

// handshake returns the first SIDR request of a capture of two Linux hosts, and the answer.
func handshake(t *testing.T, name string) (req, rep []byte) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "frame", "testdata", "kernel", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for req == nil || rep == nil {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s has no handshake", name)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := roce.Parse(b)
		if m, ok := ib.AsMAD(p.Payload); err != nil || !ok || p.DestQP != ib.QP1 {
			continue
		} else if m.AttrID() == ib.AttrSIDRReq {
			req = b
		} else if m.AttrID() == ib.AttrSIDRRep {
			rep = b
		}
	}
	return req, rep
}

// parsed parses a frame of the kernel.
func parsed(t *testing.T, b []byte) roce.Packet {
	t.Helper()
	p, err := roce.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// between puts the bridge in the place of a host of a capture: its MAC address and VLAN, and an IB node with its IP
// address.
func between(c *manageConfig, p roce.Packet, mac frame.MAC, node netip.Addr, port uint16) {
	c.MAC, c.Addresses = mac, nil
	if p.Tag != nil {
		c.VLAN = p.Tag.VID
	}
	c.Nodes = []manage.Node{{GID: nodeGID, LID: 7}}
	if node.Is4() {
		c.Nodes[0].IP4 = node
	} else {
		c.Nodes[0].IP6 = node
	}
	c.Ports = []ibside.PortRange{{First: port, Last: port}}
	c.Allow = []netip.Prefix{netip.PrefixFrom(p.SrcIP, p.SrcIP.BitLen()), netip.PrefixFrom(p.DstIP, p.DstIP.BitLen())}
}

// A kernelExchange is a handshake of two Linux hosts.
type kernelExchange struct {
	frame    []byte // the request
	req, rep roce.Packet
	asks     ib.SIDRReq
	says     ib.SIDRRep
}

func kernelExchangeOf(t *testing.T, name string) kernelExchange {
	req, rep := handshake(t, name)
	k := kernelExchange{frame: req, req: parsed(t, req), rep: parsed(t, rep)}
	k.asks, _ = ib.AsSIDRReq(k.req.Payload[ib.MADHdrLen:])
	k.says, _ = ib.AsSIDRRep(k.rep.Payload[ib.MADHdrLen:])
	return k
}

// TestKernelHandshakes puts the bridge in the place of one side of handshakes of two Linux hosts, then of the other. It
// must send what that host sent, except for the numbers that it may choose itself.
func TestKernelHandshakes(t *testing.T) {
	for _, name := range []string{"sidr.pcap", "sidr_v6.pcap", "sidr_vlan.pcap", "sidr_tos.pcap", "sidr_odd.pcap", "sidr_unserved.pcap"} {
		k := kernelExchangeOf(t, name)
		bubble(t, name+", as the server", k.asServer)
		bubble(t, name+", as the client", k.asClient)
	}
}

func (k *kernelExchange) asServer(t *testing.T) {
	req, rep, says := k.req, k.rep, k.says
	s := startServices(t, func(c *manageConfig, cm *services) {
		between(c, req, req.Dst, req.DstIP, k.asks.ServiceID().Port())
		cm.connect = func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
			if says.Status() != 0 {
				return ibside.ServiceAnswer{}, &ibside.Rejected{Status: says.Status(), Private: says.Private()}
			}
			return ibside.ServiceAnswer{QPN: says.QPN(), QKey: says.QKey(), Private: says.Private()}, nil
		}
	})
	sent := s.give(k.frame)
	if len(sent) != 1 {
		t.Fatalf("%d answers", len(sent))
	}
	got := parsed(t, sent[0])
	if !bytes.Equal(got.Payload, rep.Payload) {
		t.Errorf("answered\n%x, the kernel\n%x", got.Payload, rep.Payload)
	}
	if got.Src != rep.Src || got.Dst != rep.Dst || got.SrcIP != rep.SrcIP || got.DstIP != rep.DstIP || got.PKey != rep.PKey ||
		(got.Tag == nil) != (rep.Tag == nil) || got.TClass&^3 != req.TClass&^3 {
		t.Errorf("answered by %+v, the kernel by %+v", got, rep)
	}
}

func (k *kernelExchange) asClient(t *testing.T) {
	req, says := k.req, k.says
	port := k.asks.ServiceID().Port()
	cma, _ := ib.AsCMAHeader(k.asks.Private())
	s := startServices(t, func(c *manageConfig, _ *services) {
		between(c, req, req.Src, req.SrcIP, port)
		c.Hosts = []tables.Host{{IP: req.DstIP, MAC: req.Dst, VLAN: c.VLAN, Version: 2, Static: true}}
	})
	a := s.request(req.SrcIP, req.DstIP, func(r *ibside.ServiceRequest) {
		r.SrcPort, r.Port, r.Private = cma.SrcPort(), port, k.asks.Private()[ib.CMAHdrLen:]
	})
	sent := s.w.take()
	if len(sent) != 1 {
		t.Fatalf("%d questions", len(sent))
	}
	got, want := parsed(t, sent[0]), bytes.Clone(req.Payload)
	const tid, id = 8, ib.MADHdrLen
	copy(want[tid:tid+8], got.Payload[tid:])
	copy(want[id:id+4], got.Payload[id:])
	if !bytes.Equal(got.Payload, want) {
		t.Errorf("asked\n%x, the kernel\n%x", got.Payload, want)
	}
	answer := k.rep
	answer.Payload = bytes.Clone(answer.Payload)
	binary.BigEndian.PutUint32(answer.Payload[id:], binary.BigEndian.Uint32(got.Payload[id:]))
	s.give(answer.AppendTo(nil))
	answers, _ := a.ends()
	if says.Status() != 0 && !a.rejectedWith(says.Status()) ||
		says.Status() == 0 && (len(answers) != 1 || answers[0].QKey != says.QKey() || !bytes.Equal(answers[0].Private, says.Private())) {
		t.Errorf("the kernel's answer %+v became %+v", says.Fields(), a)
	}
}
