// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestAFPacketRing(t *testing.T) {
	const frame = 4288
	const each = 2 * frame * 64 // bytes of a block in both rings of a queue
	for _, c := range []struct {
		wanted, queues int
		lockable       uint64
		want           int
	}{
		{8192, 1, math.MaxUint64, 8192},
		{8192, 1, 128 * each, 8192},
		{8192, 1, 128*each - 1, 127 * 64},
		{8192, 4, 128 * each, 32 * 64},
		{8192, 1, 8 << 20, 15 * 64},
		{8192, 2, 0, 64},
		{64, 1, math.MaxUint64, 64},
	} {
		if got := afRing(c.wanted, frame, c.queues, c.lockable); got != c.want {
			t.Errorf("%d of %d queues in %d bytes: %d, want %d", c.wanted, c.queues, c.lockable, got, c.want)
		}
	}
}

// TestAFPacketWithinLimit checks that a process that may lock little memory gets a port with smaller rings, and says
// so.
func TestAFPacketWithinLimit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a network namespace and packet sockets")
	}
	cmd := exec.Command("prlimit", "--memlock=3145728", "setpriv", "--bounding-set=-ipc_lock", os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"=rings")
	out, err := cmd.CombinedOutput()
	want := "320 frames, 2744320 bytes: the rings have 320 frames each, not 8192, because the process may lock no more memory: " +
		"ulimit -l unlimited, LimitMEMLOCK=infinity or CAP_IPC_LOCK\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// taskRings opens a port with more frames than may be locked.
func taskRings() (string, error) {
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return "", err
	}
	for _, args := range []string{"link add ours mtu 4200 type veth peer name theirs mtu 4200", "link set ours up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	if _, err := Init(EALConfig{Name: "test", MemoryMiB: 64, ForceNoHuge: true}); err != nil {
		return "", err
	}
	pool, err := NewMempool("pool", 1024, jumboRoom, 0)
	if err != nil {
		return "", err
	}
	p, err := OpenPort("af_packet:ours", PortConfig{Pool: pool, RxDescs: 8192})
	if err != nil {
		return "", err
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d frames, %d bytes: %s", p.Rings().Frames, p.Rings().Bytes, p.Caveat()), p.Close()
}
