// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// TestKept lists what bridges keep.
func TestKept(t *testing.T) {
	const packet = "cap_net_admin,cap_net_raw,cap_ipc_lock"
	for _, c := range []struct{ name, port, ib, more, want string }{
		{"nothing of the machine", "memif:/run/x.sock,role=server,id=0", "fabric:x.toml", "", "none"},
		{"capture files", "pcap:in.pcap", "fabric:x.toml", "", "none"},
		{"an interface", "af_packet:eth1", "fabric:x.toml", "", packet},
		{"a tap", "tap:dtap0", "fabric:x.toml", "", packet},
		{"a card", "mlx5:0000:3b:00.0", "fabric:x.toml", "", packet},
		{"an HCA", "ring", "mlx5_0:1", "", "cap_net_raw,cap_ipc_lock"},
		{"an HCA, whose nodes are learned", "ring", "mlx5_0:1", "nodes = \"learn\"\n", packet},
		{"a low port", "ring", "fabric:x.toml", "[metrics]\nlisten = \"127.0.0.1:99\"\n", "cap_net_bind_service"},
		{"a low port of a console", "ring", "fabric:x.toml", "[console]\nlisten = [\"unix:/run/x.sock\", \"127.0.0.1:23\"]\n", "cap_net_bind_service"},
		{"a low service", "ring", "fabric:x.toml", "[[service]]\nport = 1023\n", "cap_net_bind_service"},
		{"a high service", "ring", "fabric:x.toml", "[[service]]\nport = 1024\n", "none"},
	} {
		text := "[roce]\nport = \"" + c.port + "\"\naddresses = [\"10.9.0.254/24\"]\nmtu = 1500\n[workers]\nlcores = [1]\n" +
			"[policy]\nallow = [\"10.9.0.0/24\"]\n[ib]\nport = \"" + c.ib + "\"\n" + c.more
		cfg, err := config.Parse("x.toml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := Kept(cfg).String(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// task makes the test binary reduce its rights, instead of testing, and print those of each of its threads.
const task = "CAUSEWAY_RIGHTS_TASK"

func TestMain(m *testing.M) {
	file, ok := os.LookupEnv(task)
	if !ok {
		os.Exit(m.Run())
	}
	left, err := Reduce(1<<unix.CAP_NET_RAW|1<<unix.CAP_NET_ADMIN, file)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("left", left)
	status, err := filepath.Glob("/proc/self/task/*/status")
	for _, s := range status {
		text, failed := os.ReadFile(s)
		err = errors.Join(err, failed)
		fmt.Printf("thread\n%s", text)
	}
	if err != nil || os.Getenv(again) != "" {
		fmt.Println(err, os.Getenv(again))
		os.Exit(1)
	}
}

// TestReduce runs a process for each kind of user, and reads the rights of all of its threads.
func TestReduce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has rights to give up: run the test as root")
	}
	dir := shared(t)
	own, foreign := filepath.Join(dir, "own"), filepath.Join(dir, "foreign")
	for _, f := range []string{own, foreign} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	if err := os.Chown(foreign, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	user := &syscall.Credential{Uid: nobody, Gid: nobody}
	for _, c := range []struct {
		name, file string
		as         syscall.SysProcAttr
		left       string
		bits       uint64
		bounded    bool // the bounding set, too
		by         string
	}{
		{"root", own, syscall.SysProcAttr{}, "cap_net_admin,cap_net_raw", 0x3000, true, ""},
		{"root, with another's file", foreign, syscall.SysProcAttr{}, "cap_dac_read_search,cap_net_admin,cap_net_raw", 0x3004, true, ""},
		{"a user", foreign, syscall.SysProcAttr{Credential: user}, "none", 0, false, ""},
		{"a user whose programs would have more", foreign, syscall.SysProcAttr{}, "none", 0, false,
			"setpriv --no-new-privs --reuid=65534 --regid=65534 --clear-groups --inh-caps=+sys_admin"},
		{"a user with capabilities", foreign,
			syscall.SysProcAttr{Credential: user, AmbientCaps: []uintptr{unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN}}, "cap_net_raw", 0x2000, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			words := append(strings.Fields(c.by), filepath.Join(dir, "program"))
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), task+"="+c.file), "/", &c.as
			out, err := cmd.CombinedOutput()
			text := string(out)
			if first, _, _ := strings.Cut(text, "\n"); err != nil || first != "left "+c.left {
				t.Fatalf("%v\n%s", err, text)
			}
			threads := strings.Count(text, "thread\n")
			want := []string{"NoNewPrivs:\t1", fmt.Sprintf("CapPrm:\t%016x", c.bits), fmt.Sprintf("CapEff:\t%016x", c.bits), fmt.Sprintf("CapInh:\t%016x", c.bits)}
			if c.bounded {
				want = append(want, fmt.Sprintf("CapBnd:\t%016x", c.bits))
			}
			for _, line := range want {
				if n := strings.Count(text, line+"\n"); n != threads || threads < 2 {
					t.Errorf("%q in %d of %d threads:\n%s", line, n, threads, text)
				}
			}
		})
	}
}

// shared returns a folder that every user can read, with this program in it.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rights")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "program"), program, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}
