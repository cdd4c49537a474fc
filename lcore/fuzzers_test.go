// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"causeway/lcore/pgm/pgmtest"
)

// needClang fails under CI, and elsewhere skips, when the compiler or its run-time library is missing.
func needClang(t *testing.T) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "empty.c")
	text := "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *p, size_t n) { (void)p; (void)n; return 0; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("clang", "-fsanitize=address,undefined,fuzzer", "-o", os.DevNull, source).CombinedOutput()
	if err == nil {
		return
	}
	what := fmt.Sprintf("clang with libFuzzer is missing (apt-get install clang libclang-rt-14-dev): %v\n%s", err, out)
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// run runs a command and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// fuzzers is where lcore/fuzz/Makefile leaves its programs.
const fuzzers = "../bin/fuzz"

// buildFuzzers builds them. Their sources are read, so that Go's cache of test results knows of them.
func buildFuzzers(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"fuzz/*", "*.[ch]", "*/*.[ch]", "../tables/*.[ch]"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("MAKEFLAGS", "") // of a make that runs this test
	run(t, ".", "make", "-s", fmt.Sprint("-j", runtime.NumCPU()), "-C", "fuzz", "OUT=../"+fuzzers)
}

// writeSeeds writes inputs into a new folder.
func writeSeeds(t *testing.T, inputs [][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for _, in := range inputs {
		name := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(in))[:16])
		if err := os.WriteFile(name, in, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// headed returns each head followed by each body.
func headed(heads [][]byte, bodies [][]byte) [][]byte {
	var out [][]byte
	for _, h := range heads {
		for _, b := range bodies {
			out = append(out, append(append([]byte{}, h...), b...))
		}
	}
	return out
}

// messageSeeds are messages as fuzz/ib_to_roce.c reads them.
func messageSeeds() [][]byte {
	var out [][]byte
	heads := [][]byte{ // options, flags, SL, local QPN, source QPN, SLID
		{0, 2, 3, 0, 0, 1, 0x23, 7}, {0, 7, 3, 1, 0, 1, 0x23, 7}, {0, 0, 3, 2, 0, 1, 0x23, 7}, {1, 2, 0, 0, 0, 1, 0x23, 7}, {2, 0, 0, 0, 0, 0, 0, 0},
		{0x80, 2, 3, 0, 0, 1, 0x23, 7},
		{0x40, 2, 3, 0, 0, 1, 0x23, 7}, {0x40, 2, 3, 8, 0, 1, 0x23, 7}, {0xc0, 0, 3, 8, 0, 1, 0x23, 8}, // the rig of two ports
	}
	for _, m := range []message{
		received(), received(noGRH), received(rdmaNode), received(toGroup(mustGID("ff12::ef01:203"))), received(toGroup(mustGID("ff12::ef81:204"))),
		received(toGroup(mustGID("ff13::"))), received(toGroup(mustGID("ff13::1"))),
		received(func(m *message) { m.Payload = pattern(1021) }),
	} {
		out = append(out, append(m.GRH[:], m.Payload...))
	}
	return headed(heads, out)
}

// pgmSeeds are packets as fuzz/pgm.c reads them: a stream with a gap that is asked for and repaired, on top of each
// other.
func pgmSeeds() [][]byte {
	var all []byte
	var out [][]byte
	for i, p := range []pgmtest.Packet{
		{Type: pgmtest.SPM, Trail: 1, Lead: 1, NLA: netip.MustParseAddr("10.9.0.1")},
		{Type: pgmtest.ODATA, SQN: 1, Trail: 1, Data: []byte("one"), Options: []pgmtest.Option{{Type: pgmtest.OptSYN}}},
		{Type: pgmtest.ODATA, SQN: 4, Trail: 1, Data: []byte("four")},
		{Type: pgmtest.NAK, SQN: 2, NLA: netip.MustParseAddr("10.9.0.1"), Group: netip.MustParseAddr("239.1.2.3"),
			Options: []pgmtest.Option{pgmtest.NAKList(3)}},
		{Type: pgmtest.NCF, SQN: 2, NLA: netip.MustParseAddr("fd09::1"), Group: netip.MustParseAddr("ff15::1")},
		{Type: pgmtest.RDATA, SQN: 2, Trail: 1, Data: []byte("two")},
		{Type: pgmtest.POLL, SQN: 1, Round: 1, NLA: netip.MustParseAddr("10.9.0.1")},
		{Type: pgmtest.ODATA, SQN: 5, Trail: 1, Options: []pgmtest.Option{{Type: pgmtest.OptFIN}, {Type: pgmtest.OptJoin, Data: make([]byte, 6)}}},
	} {
		p.GSI, p.SrcPort, p.DstPort = [6]byte{1, 2, 3}, 7500, 7501
		b := p.AppendTo(nil)
		one := append([]byte{byte(len(b)), byte(1 | i&3<<1 | len(b)>>8<<6)}, b...)
		out, all = append(out, one), append(all, one...)
	}
	return append(out, all)
}

func fuzzSeconds(t *testing.T) int {
	s := os.Getenv("CAUSEWAY_FUZZ_SECONDS")
	if s == "" {
		return 1
	}
	seconds, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("CAUSEWAY_FUZZ_SECONDS=%s is not a number", s)
	}
	return seconds
}

// corpus are frames and messages of the differential tests' generator, in the fuzzers' input format.
func corpus() (frames, messages [][]byte) {
	g := newGenerator(smallFixture(), 99, 0)
	for range 1500 {
		frames = append(frames, g.frame())
		m := g.message()
		messages = append(messages, append(append([]byte{0, byte(g.IntN(16)), byte(m.SL), byte(g.IntN(4)), 0, 1, 0x23, 7}, m.GRH[:]...), m.Payload...))
	}
	return headed([][]byte{{0}, {3}, {0x43}, {0x63}}, frames), messages
}

// Each fuzzer runs for some seconds, from good packets and from those of the differential tests.
func TestCFuzzers(t *testing.T) {
	needClang(t)
	buildFuzzers(t)
	seconds := fuzzSeconds(t)
	frames, messages := corpus()
	for _, fuzzer := range []struct {
		name  string
		seeds [][]byte
		sends string // what the rig must not print at the end
	}{
		{"roce_to_ib", append(headed([][]byte{{0}, {3}, {0x83}, {0x43}, {0xe3}}, append(seeds(), tagged(v4(), 0x81, 0, 0, 0), newcomer())), frames...), "sent 0 to IB"},
		{"ib_to_roce", append(messageSeeds(), messages...), " 0 to RoCE"},
		{"icrc", headed([][]byte{{0}, {1}, {2}, {20}}, [][]byte{v4()[atNet:], v6()[atNet:], v1()[atNet:], pattern(4300), pattern(64)}), ""},
		{"pgm", pgmSeeds(), ""},
	} {
		t.Run(fuzzer.name, func(t *testing.T) {
			program, err := filepath.Abs(filepath.Join(fuzzers, fuzzer.name))
			if err != nil {
				t.Fatal(err)
			}
			out := run(t, t.TempDir(), program, "-max_len=4600", "-print_final_stats=1", fmt.Sprint("-max_total_time=", seconds),
				writeSeeds(t, fuzzer.seeds))
			for line := range strings.Lines(out) {
				if strings.Contains(line, "executed_units") || strings.Contains(line, "DONE") || strings.HasPrefix(line, "rig of") {
					t.Log(strings.TrimSpace(line))
				}
			}
			if fuzzer.sends != "" && (strings.Contains(out, fuzzer.sends) || strings.Count(out, "rig of") != 2) {
				t.Errorf("the fuzzer sends nothing: %.2000s", out)
			}
			if fuzzer.sends != "" && strings.Count(out, ", 0 dropped as wrong_partition") != 1 {
				t.Errorf("with two partitions nothing tries to cross: %.2000s", out)
			}
		})
	}
}
