// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tasks are what a process started by a test does; each answers one line, or an error.
var tasks = map[string]func() (string, error){
	"run":           taskRun,
	"echo":          taskEcho,
	"no-memory":     taskNoMemory,
	"address-space": taskAddressSpace,
	"nobody":        taskNobody,
	"rings":         taskRings,
}

func runTask(task string) int {
	line, err := tasks[task]()
	if err != nil {
		fmt.Println("error:", err)
		return 3
	}
	fmt.Println(line)
	return 0
}

// taskRun starts an EAL, tells so, and keeps it until its input ends.
func taskRun() (string, error) {
	eal, err := Init(EALConfig{Name: "test", MemoryMiB: 32, ForceNoHuge: true})
	if err != nil {
		return "", err
	}
	pool, err := NewMempool("pool", 256, 2048, 0)
	if err != nil {
		return "", err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return "", err
	}
	return "closed", errors.Join(pool.Free(), eal.Close())
}

// taskEcho is the memif server that sends every frame back.
func taskEcho() (string, error) {
	if _, err := Init(EALConfig{Name: "test", MemoryMiB: 64, ForceNoHuge: true}); err != nil {
		return "", err
	}
	pool, err := NewMempool("pool", 1024, jumboRoom, 0)
	if err != nil {
		return "", err
	}
	p, err := OpenPort("memif:"+os.Getenv("SOCKET")+",role=server", PortConfig{Pool: pool, MTU: 4200, RxDescs: 64, TxDescs: 64})
	if err != nil {
		return "", err
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	fmt.Println("ready")
	var burst [1]Mbuf
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if p.Rx(0, burst[:]) == 1 && p.Tx(0, burst[:]) == 0 {
			burst[0].Free()
		}
	}
	return "", errors.New("nobody ended the echo")
}

func taskNoMemory() (string, error) {
	_, err := Init(EALConfig{MemoryMiB: 1 << 30, ForceNoHuge: true})
	return "", err
}

// taskAddressSpace makes the EAL itself fail.
func taskAddressSpace() (string, error) {
	limit := syscall.Rlimit{Cur: 3 << 30, Max: 3 << 30}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		return "", err
	}
	_, err := Init(EALConfig{MemoryMiB: 3 << 10, ForceNoHuge: true})
	return "", err
}

// taskNobody starts the EAL without any privilege, and wants a port that needs one.
func taskNobody() (string, error) {
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		return "", err
	}
	eal, err := Init(EALConfig{MemoryMiB: 32, ForceNoHuge: true})
	if err != nil {
		return "", err
	}
	defer eal.Close()
	pool, err := NewMempool("pool", 255, 2048, 0)
	if err != nil {
		return "", err
	}
	if p, err := OpenPort("null", PortConfig{Pool: pool}); err != nil || p.Close() != nil {
		return "", fmt.Errorf("null: %v", err)
	}
	_, err = OpenPort(os.Getenv("PORT"), PortConfig{Pool: pool, MTU: 1280})
	return "", err
}

// start runs this test program for a task. Its lines are what it prints.
func start(t *testing.T, task string, env ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childTask+"="+task), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewScanner(out)
}

func wantLine(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != want {
		t.Fatalf("the process said %q, want %q", lines.Text(), want)
	}
}

func TestProcessesSideBySide(t *testing.T) {
	first, firstIn, firstLines := start(t, "run")
	second, secondIn, secondLines := start(t, "run")
	wantLine(t, firstLines, "ready")
	wantLine(t, secondLines, "ready")
	firstIn.Close()
	wantLine(t, firstLines, "closed")
	secondIn.Close()
	wantLine(t, secondLines, "closed")
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Error(err)
	}
}

func TestMemifToAnotherProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "echo.sock")
	cmd, _, lines := start(t, "echo", "SOCKET="+socket)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	wantLine(t, lines, "ready")
	p := open(t, "memif:"+socket, PortConfig{Pool: newPool(t), MTU: 4200, RxDescs: 64, TxDescs: 64})
	awaitLink(t, p)
	echo := portEnd(p)
	crossBothWays(t, echo, echo, 4200)
}

func TestOneLineErrorsOfProcesses(t *testing.T) {
	for _, c := range []struct {
		task, port string
		want       []string
	}{
		{"no-memory", "", []string{"error: dpdk: EAL did not start: cannot reserve 1073741824 MiB: ", " MiB are available; free memory or lower [workers] memory_mib"}},
		{"address-space", "", []string{"error: dpdk: EAL did not start: cannot reserve 3072 MiB: ", "; free memory or lower [workers] memory_mib"}},
		{"nobody", "af_packet:lo", []string{`error: dpdk: port "af_packet:lo": `, "; the process needs CAP_NET_RAW"}},
		{"nobody", "tap:dtap9", []string{`error: dpdk: port "tap:dtap9": `, "; the process needs CAP_NET_ADMIN"}},
	} {
		if c.task == "address-space" && !limitsAddressSpace {
			t.Log("the address-space case needs a build without -asan")
			continue
		}
		if c.task == "nobody" && os.Geteuid() != 0 {
			t.Log("the nobody cases need root, to become nobody")
			continue
		}
		cmd, _, lines := start(t, c.task, "PORT="+c.port)
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("%s: %v", c.task, err)
		}
		if len(said) != 1 {
			t.Errorf("%s: %d lines, want one: %q", c.task, len(said), said)
		}
		wantError(t, errors.New(strings.Join(said, " ")), c.want...)
	}
}

func TestInitTwice(t *testing.T) {
	_, err := Init(EALConfig{})
	wantError(t, err, "dpdk: the EAL starts once in a process, and this one has started it already")
}

func TestEALTellsOfOrdinaryMemory(t *testing.T) {
	if !testEAL.NoHuge() || testEAL.Note() != "dpdk: running on 128 MiB of ordinary memory, as asked: slower than hugepages" {
		t.Errorf("%v %q", testEAL.NoHuge(), testEAL.Note())
	}
	if !strings.HasPrefix(Version(), "DPDK ") {
		t.Errorf("version %q", Version())
	}
}

// TestLcoreThreads looks at the kernel's side: a worker thread is pinned to its CPU and takes no signal, and no other
// thread of the process was pinned by the EAL.
func TestLcoreThreads(t *testing.T) {
	if lcores := testEAL.WorkerLcores(); len(lcores) != 1 || lcores[0] != 1 {
		t.Errorf("worker lcores %v, want [1]", lcores)
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	workers := 0
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			fields[key] = strings.TrimSpace(value)
		}
		switch cpus := fields["Cpus_allowed_list"]; {
		case fields["Name"] == "rte-worker-1":
			workers++
			if cpus != cpuList(lastCPU()) || !strings.HasPrefix(fields["SigBlk"], "fffffffe") {
				t.Errorf("the worker runs on CPUs %s with signals %s blocked", cpus, fields["SigBlk"])
			}
		case strings.HasPrefix(fields["Name"], "dpdk"):
			if cpus != cpuList(usableCPUs()) {
				t.Errorf("thread %s may run on CPUs %s only", fields["Name"], cpus)
			}
		}
	}
	if workers != 1 {
		t.Errorf("%d threads named rte-worker-1", workers)
	}
}
