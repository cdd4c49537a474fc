// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"causeway/lcore"
	"causeway/lcore/icrctest"
)

const (
	icrcMin = 20   // what the workers never go below
	icrcMax = 4240 // a 4096-byte payload behind the longest headers, and some
)

// icrcFree lists the bits that may change without changing the ICRC, by offset from the network header.
var icrcFree = map[icrctest.Kind]map[int]byte{
	icrctest.IPv4: {1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff, 26: 0xff, 27: 0xff, 32: 0xff},
	icrctest.IPv6: {0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 46: 0xff, 47: 0xff, 52: 0xff},
	icrctest.GRH:  {0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 44: 0xff},
}

// icrcPrefixes returns at [n] the ICRC of p[:n], computed by hash/crc32 alone.
func icrcPrefixes(kind icrctest.Kind, p []byte) []uint32 {
	crc := crc32.ChecksumIEEE([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	out := []uint32{crc}
	for i, b := range p {
		crc = crc32.Update(crc, crc32.IEEETable, []byte{b | icrcFree[kind][i]})
		out = append(out, crc)
	}
	return out
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// eachICRC runs f once per version and kind, and says which versions this CPU could not run.
func eachICRC(t *testing.T, f func(t *testing.T, v icrctest.Version, kind icrctest.Kind)) {
	t.Helper()
	t.Logf("this CPU runs %v; the workers use %s", icrctest.Versions(), lcore.ICRCVersion())
	for _, v := range icrctest.Versions() {
		for kind := range icrctest.GRH + 1 {
			t.Run(fmt.Sprintf("%s/kind%d", v, kind), func(t *testing.T) { f(t, v, kind) })
		}
	}
}

func TestICRCVersionIsTheFastest(t *testing.T) {
	vs := icrctest.Versions()
	if len(vs) == 0 || vs[0].String() != lcore.ICRCVersion() {
		t.Errorf("chosen %q, can run %q", lcore.ICRCVersion(), vs)
	}
	if vs[len(vs)-1].String() != "table" {
		t.Errorf("the version for any CPU is missing: %q", vs)
	}
}

func TestICRCExamples(t *testing.T) {
	const bth = "6470ffff0000012300000001" + "0123456700000456" + "48656c6c6f000000"
	for _, e := range []struct {
		name, packet, want string
		kind               icrctest.Kind
	}{
		{"IPv4", "4562003c0000400040112639" + "0a0a00010a0a0002" + "e34112b700280000" + bth, "6ef89aab", icrctest.IPv4},
		{"IPv4 multicast", "450200400000400040113f9c" + "0a0a0001ef010203" + "c12312b7002c0000" +
			"6570ffff00ffffff00000002" + "0123456700000456" + "00000456" + "48656c6c6f000000", "65da5927", icrctest.IPv4},
		{"IPv4 CNP", "45c2003c00004000401125d9" + "0a0a00020a0a0001" + "c00012b700280000" +
			"8100ffff40000456" + strings.Repeat("00", 20), "c62daa01", icrctest.IPv4},
		{"IPv6", "6621234500281140" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002" +
			"e34112b700280000" + bth, "d8d89fc4", icrctest.IPv6},
		{"GRH", "6000000000201b01" + "fe80000000000000000000fffe000001" + "fe80000000000000000000fffe000002" + bth,
			"51f99f4d", icrctest.GRH},
	} {
		p, err := hex.DecodeString(e.packet)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range icrctest.Versions() {
			got := hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, v.One(e.kind, p)))
			if got != e.want {
				t.Errorf("%s by %s: %s, want %s", e.name, v, got, e.want)
			}
		}
	}
}

func TestICRCEveryLengthAndAlignment(t *testing.T) {
	eachICRC(t, func(t *testing.T, v icrctest.Version, kind icrctest.Kind) {
		r := rand.New(rand.NewPCG(1, uint64(kind)))
		for align := range 64 {
			buf := randomBytes(r, 64+icrcMax)
			p := buf[align : align+icrcMax]
			want := icrcPrefixes(kind, p)
			for n := icrcMin; n <= icrcMax; n++ {
				if got := v.One(kind, p[:n]); got != want[n] {
					t.Fatalf("length %d, alignment %d: %08x, want %08x", n, align, got, want[n])
				}
			}
		}
	})
}

// Lengths that no worker asks for must be right all the same, not merely harmless.
func TestICRCOddLengths(t *testing.T) {
	eachICRC(t, func(t *testing.T, v icrctest.Version, kind icrctest.Kind) {
		p := randomBytes(rand.New(rand.NewPCG(2, 0)), 70000)
		want := icrcPrefixes(kind, p)
		for n := range p {
			if n >= icrcMin && n <= icrcMax || n > 4400 && n%997 != 0 {
				continue
			}
			if got := v.One(kind, p[:n]); got != want[n] {
				t.Fatalf("length %d: %08x, want %08x", n, got, want[n])
			}
		}
	})
}

func TestICRCSingleBitFlips(t *testing.T) {
	eachICRC(t, func(t *testing.T, v icrctest.Version, kind icrctest.Kind) {
		for _, n := range []int{60, 64, 69, 112, 115, 304} {
			p := randomBytes(rand.New(rand.NewPCG(3, uint64(n))), n)
			before := v.One(kind, p)
			survivors := 0
			for i := range p {
				for bit := byte(1); bit != 0; bit <<= 1 {
					p[i] ^= bit
					same := v.One(kind, p) == before
					p[i] ^= bit
					if free := icrcFree[kind][i]&bit != 0; same != free {
						t.Errorf("length %d: byte %d bit %02x: survives %v, want %v", n, i, bit, same, free)
					}
					if same {
						survivors++
					}
				}
			}
			want := 0
			for _, m := range icrcFree[kind] {
				want += bits.OnesCount8(m)
			}
			if survivors != want {
				t.Errorf("length %d: %d bits survive, want %d", n, survivors, want)
			}
		}
	})
}

// guarded returns memory with a page that cannot be read on both sides.
func guarded(t *testing.T, size int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, side := range [][]byte{m[:page], m[page+size:]} {
		if err := syscall.Mprotect(side, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page : page+size : page+size]
}

// A read outside of the packet ends the test with a fault.
func TestICRCGuardPages(t *testing.T) {
	eachICRC(t, func(t *testing.T, v icrctest.Version, kind icrctest.Kind) {
		m := guarded(t, icrcMax)
		copy(m, randomBytes(rand.New(rand.NewPCG(4, 0)), len(m)))
		front := icrcPrefixes(kind, m)
		for n := 1; n <= len(m); n++ {
			if got := v.One(kind, m[:n]); got != front[n] {
				t.Fatalf("length %d at the front: %08x, want %08x", n, got, front[n])
			}
			if got, want := v.One(kind, m[len(m)-n:]), icrcPlain(kind, m[len(m)-n:]); got != want {
				t.Fatalf("length %d at the end: %08x, want %08x", n, got, want)
			}
		}
	})
}

// icrcPlain is the ICRC of p by hash/crc32.
func icrcPlain(kind icrctest.Kind, p []byte) uint32 {
	head := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
	masked := min(len(p), 64)
	for i, b := range p[:masked] {
		head = append(head, b|icrcFree[kind][i])
	}
	return crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, p[masked:])
}

func TestICRCBurst(t *testing.T) {
	for _, v := range icrctest.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 0))
			for n := range 130 {
				var jobs []icrctest.Job
				for range n {
					jobs = append(jobs, icrctest.Job{Kind: icrctest.Kind(r.IntN(len(icrcFree))), Packet: randomBytes(r, icrcMin+r.IntN(400))})
				}
				for i, got := range v.Burst(jobs) {
					if want := icrcPlain(jobs[i].Kind, jobs[i].Packet); got != want {
						t.Fatalf("burst of %d, packet %d: %08x, want %08x", n, i, got, want)
					}
				}
			}
		})
	}
}

// Packets of one length share constants. Two of them end and begin where memory does: a read outside ends the test.
func TestICRCBurstOfOneLength(t *testing.T) {
	for _, v := range icrctest.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 0))
			m := guarded(t, icrcMax)
			copy(m, randomBytes(r, len(m)))
			free := randomBytes(r, icrcMax+2*64)
			for n := 1; n <= icrcMax; n++ {
				var jobs []icrctest.Job
				for i, p := range [][]byte{m[:n], m[len(m)-n:], free[r.IntN(64):][:n], free[r.IntN(128):][:n]} {
					jobs = append(jobs, icrctest.Job{Kind: icrctest.Kind((n + i) % len(icrcFree)), Packet: p})
				}
				for i, got := range v.Burst(jobs) {
					if want := icrcPlain(jobs[i].Kind, jobs[i].Packet); got != want {
						t.Fatalf("length %d, packet %d: %08x, want %08x", n, i, got, want)
					}
				}
			}
		})
	}
}

// BenchmarkICRC measures RoCEv2/IPv4 packets, 48 bytes of headers and the payload, hot in the first-level cache.
// hash/crc32 gets the same number of bytes without any masking, which is less work.
func BenchmarkICRC(b *testing.B) {
	p := randomBytes(rand.New(rand.NewPCG(6, 0)), 48+4096)
	for _, payload := range []int{64, 256, 1024, 4096} {
		p := p[:48+payload]
		for _, v := range icrctest.Versions() {
			b.Run(fmt.Sprintf("%s/%d", v, payload), func(b *testing.B) {
				b.SetBytes(int64(len(p)))
				v.Repeat(icrctest.IPv4, p, b.N)
			})
		}
		b.Run(fmt.Sprintf("hash-crc32/%d", payload), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				crc32.ChecksumIEEE(p)
			}
		})
	}
}
