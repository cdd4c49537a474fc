// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// endbr64 is the instruction at which an indirect branch may land.
var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// landings is fewer than the C functions of the bridge, and more than those of the C library's startup files.
const landings = 100

// weaknesses returns what a program lacks of what makes a memory error in its C harder to exploit. The linker marks a
// whole program for control-flow protection only if every object of it is marked, and Go's never are. So this does not
// ask for that mark, only for the C functions' landing points.
func weaknesses(t *testing.T, program string) (found []string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lacks := func(what string, has bool) {
		if !has {
			found = append(found, what)
		}
	}
	lacks("PIE", f.Type == elf.ET_DYN && dynamic(f, elf.DT_FLAGS_1)&uint64(elf.DF_1_PIE) != 0)
	lacks("BIND_NOW", dynamic(f, elf.DT_FLAGS)&uint64(elf.DF_BIND_NOW) != 0)
	lacks("GNU_RELRO", slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO }))
	lacks("a stack that is not executable", slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X == 0
	}))
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	lacks("-fstack-protector", slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == "__stack_chk_fail" }))
	lacks("_FORTIFY_SOURCE", slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool {
		return strings.HasSuffix(s.Name, "_chk")
	}))
	if f.Machine == elf.EM_X86_64 {
		text, err := f.Section(".text").Data()
		if err != nil {
			t.Fatal(err)
		}
		lacks("-fcf-protection", bytes.Count(text, endbr64) >= landings)
	}
	return found
}

// dynamic returns the first value of a tag of the dynamic section, 0 without one.
func dynamic(f *elf.File, tag elf.DynTag) uint64 {
	values, err := f.DynValue(tag)
	if err != nil || len(values) == 0 {
		return 0
	}
	return values[0]
}

// TestHardened builds the program as make build does, and looks into it.
func TestHardened(t *testing.T) {
	bin := t.TempDir()
	cmd := exec.Command("make", "-s", "-C", "..", "programs", "PROGRAMS=./app/causeway", "BIN="+bin)
	for _, v := range os.Environ() { // make adds to CGO_CFLAGS what it has added already, if a make runs this test
		if !strings.HasPrefix(v, "CGO_CFLAGS=") && !strings.HasPrefix(v, "MAKEFLAGS=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make programs: %v\n%s", err, out)
	}
	if found := weaknesses(t, filepath.Join(bin, "causeway")); len(found) > 0 {
		t.Errorf("the program lacks %s", strings.Join(found, ", "))
	}
}

// TestHardenedNotices builds programs without one protection each.
func TestHardenedNotices(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program.c")
	text := "#include <stdio.h>\n#include <string.h>\nint main(int n, char **v)\n{\n\tchar b[9];\n" +
		"\tstrcpy(b, v[n - 1]);\n\treturn puts(b);\n}\n"
	for i := range landings {
		text += fmt.Sprintf("int f%d(int n)\n{\n\treturn n;\n}\n", i)
	}
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fcf-protection", "-fPIE", "-pie",
		"-Wl,-z,relro,-z,now,-z,noexecstack"}
	for _, c := range []struct{ lacks, instead string }{
		{"", "-O2"},
		{"PIE", "-no-pie"},
		{"BIND_NOW", "-Wl,-z,lazy"},
		{"GNU_RELRO", "-Wl,-z,norelro"},
		{"a stack that is not executable", "-Wl,-z,execstack"},
		{"-fstack-protector", "-fno-stack-protector"},
		{"_FORTIFY_SOURCE", "-U_FORTIFY_SOURCE"},
		{"-fcf-protection", "-fcf-protection=none"},
	} {
		program := filepath.Join(dir, "program")
		if out, err := exec.Command("gcc", append(slices.Clone(good), c.instead, "-o", program, source)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		if got := strings.Join(weaknesses(t, program), ", "); got != c.lacks {
			t.Errorf("%s: lacks %q, want %q", c.instead, got, c.lacks)
		}
	}
}
