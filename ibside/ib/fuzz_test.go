// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
)

// Each fuzzer checks that no input causes a panic, and that parsed input is written and parsed again into the same.

func addExamples(f *testing.F, link string) {
	for _, x := range examples(f) {
		if x.link == link || link == "" {
			f.Add(x.frame)
			f.Add(x.frame[:len(x.frame)/2])
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	addExamples(f, "ib")
	f.Fuzz(func(t *testing.T, b []byte) {
		checkPacket(t, b)
		b = bytes.Clone(b)
		if ib.PutCRCs(b) { // otherwise hardly any input would pass the CRC checks
			checkPacket(t, b)
		}
	})
}

func checkPacket(t *testing.T, b []byte) {
	p, fault := ib.ParsePacket(b)
	if fault != ib.FaultNone {
		return
	}
	again := p.AppendTo(nil)
	q, fault := ib.ParsePacket(again)
	if fault != ib.FaultNone || !reflect.DeepEqual(p, q) || len(again) != len(b) {
		t.Errorf("fault %q\n% x\n% x\n%+v\n%+v", fault, b, again, p, q)
	}
}

// FuzzHeaders passes the input to each header's codec.
func FuzzHeaders(f *testing.F) {
	for _, h := range headers {
		f.Add(unhex(f, h.hex))
	}
	for _, x := range examples(f) {
		for _, off := range []int{0, 8, 28, 48, 52, 68, 84} { // headers begin there, one or the other
			f.Add(x.frame[min(off, len(x.frame)):])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, c := range codecs {
			fields, ok := c.parse(b)
			if ok && len(b) < c.len {
				t.Fatalf("%s was taken from %d bytes", name, len(b))
			}
			if !ok {
				continue
			}
			out := make([]byte, c.len)
			c.put(out, fields)
			if again, ok := c.parse(out); !ok || !reflect.DeepEqual(again, fields) {
				t.Errorf("%s: %v\n%+v\n%+v", name, ok, fields, again)
			}
		}
	})
}

// FuzzManagement parses a MAD layer by layer, as its receiver does.
func FuzzManagement(f *testing.F) {
	for _, name := range []string{"ib-sidr-req", "ib-group-join"} {
		b := frame(f, name)
		f.Add(b[28 : len(b)-6])
	}
	b := frame(f, "roce2-sidr-rep")
	f.Add(b[62 : len(b)-4])
	f.Add([]byte(ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{Data: b[:9]})))
	f.Fuzz(func(t *testing.T, b []byte) {
		mad, ok := ib.AsMAD(b)
		if !ok {
			return
		}
		body := b[ib.MADHdrLen:]
		if m, ok := ib.AsBridgeMAD(b); ok && (len(m.Data()) > ib.BridgeDataLen || mad.IsCM()) {
			t.Errorf("%d bytes of data", len(m.Data()))
		}
		if mad.IsCM() {
			if req, ok := ib.AsSIDRReq(body); ok {
				if h, ok := ib.AsCMAHeader(req.Private()); ok && h.IsSane() && h.Src().Is4() != h.Dst().Is4() {
					t.Errorf("addresses of two families: %v, %v", h.Src(), h.Dst())
				}
			}
			if rep, ok := ib.AsSIDRRep(body); ok && len(rep.Additional())+len(rep.Private()) > len(body) {
				t.Error("more data than bytes")
			}
		}
		if _, ok := ib.AsSAHeader(body); ok && len(body) >= ib.SAHdrLen {
			ib.AsMCMemberRecord(body[ib.SAHdrLen:])
			ib.AsPathRecord(body[ib.SAHdrLen:])
		}
	})
}

func FuzzParseERF(f *testing.F) {
	for _, x := range examples(f) {
		f.Add(ib.AppendERF(nil, time.Unix(1700000000, 999999999), x.frame))
	}
	for _, c := range erfVariants {
		f.Add(c.edit(ib.AppendERF(nil, time.Unix(1700000000, 999999999), frame(f, "ib-local"))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := erftest.Parse(b)
		if !ok {
			return
		}
		if r.WireLen > 65535 || len(r.Packet) > r.WireLen || len(r.Packet) > len(b)-16 {
			t.Errorf("%+v of %d bytes", r, len(b))
		}
		r2, ok := erftest.Parse(ib.AppendERF(nil, r.Time, r.Packet))
		if want := r.Packet[:min(len(r.Packet), 8190)]; !ok || !r2.Time.Equal(r.Time) || !bytes.Equal(r2.Packet, want) {
			t.Errorf("%v: %+v, %+v", ok, r, r2)
		}
	})
}

func FuzzICRC(f *testing.F) {
	for _, x := range examples(f) {
		_, p, _ := x.covered(f)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		before := bytes.Clone(p)
		all := []uint32{ib.ICRCIB(p), ib.ICRCRoCEv1(p), ib.ICRCRoCEv2(p)}
		if !bytes.Equal(p, before) {
			t.Error("the packet was changed")
		}
		if len(p) < 60 {
			return
		}
		link := local
		if p[1]&3 == 3 {
			link = global
		}
		net := ipv6
		if p[0]>>4 == 4 {
			net = ipv4
		}
		for i, e := range []encap{link, rocev1, net} {
			if want := icrcByBit(e, p); all[i] != want {
				t.Errorf("%v: %08x, bit by bit %08x", e, all[i], want)
			}
		}
	})
}

func FuzzParseGID(f *testing.F) {
	for _, s := range []string{"fe80::1", "::ffff:239.1.2.3", "ff12:401b:ffff::ffff:ffff", "fe80::1%eth0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ib.ParseGID(s)
		if err != nil {
			return
		}
		if again, err := ib.ParseGID(g.String()); err != nil || again != g {
			t.Errorf("%q: %v, written %q, and read %v", s, err, g, again)
		}
	})
}
