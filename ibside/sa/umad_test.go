// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
)

// umadLayout prints the kernel header's values of all numbers in umad.go.
const umadLayout = `#include <stddef.h>
#include <stdio.h>
#include <rdma/ib_user_mad.h>
#define H(f) (int)offsetof(struct ib_user_mad_hdr, f)
#define R(f) (int)offsetof(struct ib_user_mad_reg_req2, f)
int main(void)
{
	printf("%d %d %d %d %d %d %d %d %d %d %d ", (int)sizeof(struct ib_user_mad_hdr), H(id), H(status), H(timeout_ms),
	       H(length), H(qpn), H(qkey), H(lid), H(sl), H(grh_present), H(pkey_index));
	printf("%d %d %d %d %d %d %d %d %d %d ", (int)sizeof(struct ib_user_mad_reg_req2), R(id), R(qpn), R(mgmt_class),
	       R(mgmt_class_version), R(flags), R(method_mask), R(oui), R(rmpp_version), IB_USER_MAD_USER_RMPP);
	printf("%u %u\n", (unsigned)IB_USER_MAD_ENABLE_PKEY, (unsigned)IB_USER_MAD_REGISTER_AGENT2);
	return 0;
}
`

func TestUmadLayout(t *testing.T) {
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(src, []byte(umadLayout), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("cc is not installed: the kernel's header cannot be compiled (apt-get install build-essential)")
	}
	if out, err := exec.Command("cc", "-o", bin, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := []uint64{
		umadHdrLen, umadAgent, umadStatus, umadTimeout, umadLength, umadQPN, umadQKey, umadLID, umadSL, umadGRH, umadPKey,
		umadRegLen, umadRegID, umadRegQPN, umadRegClass, umadRegVersion, umadRegFlags, umadRegMethods, umadRegOUI, umadRegRMPP, umadUserRMPP,
		umadEnablePKey, umadRegisterAgent2,
	}
	theirs := strings.Fields(string(out))
	if len(theirs) != len(ours) {
		t.Fatalf("%d numbers: %s", len(theirs), out)
	}
	for i, n := range ours {
		if theirs[i] != strconv.FormatUint(n, 10) {
			t.Errorf("number %d: the header says %s, we %d", i, theirs[i], n)
		}
	}
}

// fakeSysfs writes the files that the kernel's sysfs has for two ports.
func fakeSysfs(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"infiniband_mad/umad0/ibdev": "mlx5_0\n", "infiniband_mad/umad0/port": "1\n",
		"infiniband_mad/umad1/ibdev": "mlx5_1\n", "infiniband_mad/umad1/port": "1\n",
		"infiniband/mlx5_1/ports/1/state": "4: ACTIVE\n", "infiniband/mlx5_1/ports/1/lid": "0x18\n",
		"infiniband/mlx5_1/ports/1/lid_mask_count": "3\n", "infiniband/mlx5_1/ports/1/sm_lid": "0x7\n",
		"infiniband/mlx5_1/ports/1/sm_sl": "2\n", "infiniband/mlx5_1/ports/1/gids/0": "fe80:0000:0000:0000:0002:c903:0000:0001\n",
		"infiniband/mlx5_1/ports/1/pkeys/0": "0x8001\n", "infiniband/mlx5_1/ports/1/pkeys/1": "0x7fff\n",
		"infiniband/mlx5_1/ports/1/pkeys/2": "0x0000\n",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUmadAbsent(t *testing.T) {
	sys, dev := fakeSysfs(t), t.TempDir()
	for _, c := range []struct{ name, sys, device, want string }{
		{"no devices", t.TempDir(), "mlx5_1", "modprobe ib_umad"},
		{"no such device", sys, "mlx5_7", "there are mlx5_0:1, mlx5_1:1"},
		{"no device file", sys, "mlx5_1", "umad1 is not there"},
	} {
		if _, err := openUmad(c.sys, dev, c.device, 1, &subnetAdministration); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want it to say %q", c.name, err, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dev, "umad1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openUmad(sys, dev, "mlx5_1", 1, &bridgeMessages); err == nil || !strings.Contains(err.Error(), "is it a user_mad device?") {
		t.Errorf("a file that is no device: %v", err)
	}
	if _, err := os.Stat("/dev/infiniband/umad0"); err == nil {
		t.Skip("this machine has umad devices: OpenUmad's error without them cannot be tested")
	}
	if _, err := OpenUmad("mlx5_0", 1); err == nil || !strings.Contains(err.Error(), "mlx5_0:1") {
		t.Errorf("OpenUmad on a machine without: %v", err)
	}
}

// newUmad attaches to one end of a pair of sockets; at the other end the test acts as the kernel.
func newUmad(t *testing.T) (u *Umad, kernel int) {
	t.Helper()
	return newAgent(t, &subnetAdministration,
		"00000000"+"01000000"+"0302"+"0000"+"01000000"+"4000000000000000"+"0000000000000000"+"00000000"+"01000000")
}

// newAgent attaches an agent, whose registration must be want, in hex of a little-endian machine.
func newAgent(t *testing.T, a *agent, want string) (u *Umad, kernel int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	u = &Umad{sys: os.DirFS(filepath.Join(fakeSysfs(t), "infiniband/mlx5_1/ports/1"))}
	var asked []uint
	err = u.attach(pair[0], "umad1", a, func(_ int, request uint, arg []byte) error {
		asked = append(asked, request)
		if request == umadRegisterAgent2 {
			if got := hexOf(arg); binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && got != want {
				t.Errorf("registered with %s, want %s", got, want)
			}
			binary.NativeEndian.PutUint32(arg, 5)
		}
		return nil
	})
	if err != nil || len(asked) != 2 {
		t.Fatalf("attach: %v, ioctls %x", err, asked)
	}
	t.Cleanup(func() { _ = errors.Join(u.Close(), unix.Close(pair[1])) })
	return u, pair[1]
}

func hexOf(b []byte) string {
	var s strings.Builder
	for _, v := range b {
		s.WriteString(strconv.FormatUint(uint64(v)|0x100, 16)[1:])
	}
	return s.String()
}

func TestUmadMADs(t *testing.T) {
	u, kernel := newUmad(t)
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodGet, TID: 9})
	if err := u.SendMAD(7, 2, mad); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := unix.Read(kernel, b)
	if err != nil || n != umadHdrLen+ib.MADLen || !bytes.Equal(b[umadHdrLen:n], mad) {
		t.Fatalf("the kernel got %d bytes, %v", n, err)
	}
	if want := "00000001" + "80010000" + "0007" + "02" + "00"; hexOf(b[umadQPN:umadGRH]) != want {
		t.Errorf("QPN, Q_Key, LID, SL: %s, want %s", hexOf(b[umadQPN:umadGRH]), want)
	}
	if agent, wait, pkey := b[umadAgent], binary.NativeEndian.Uint32(b[umadTimeout:]), b[umadPKey]; agent != 5 || wait != 20000 || pkey != 1 {
		t.Errorf("agent %d, timeout %d ms, P_Key index %d", agent, wait, pkey)
	}
	for name, f := range map[string]ib.MADFields{"an answer": {Method: ib.MethodReportResp}, "an acknowledgement": {Method: ib.MethodGetTable}} {
		ib.PutMAD(mad, f)
		ib.PutSAHeader(mad[ib.MADHdrLen:], ib.SAFields{RMPPFlags: ib.RMPPFlagActive})
		if err := u.SendMAD(7, 2, mad); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(kernel, b); err != nil || binary.NativeEndian.Uint32(b[umadTimeout:]) != 0 {
			t.Errorf("%s: %d bytes, %v; the kernel waits for an answer to it", name, n, err)
		}
	}
	if err := u.SendMAD(7, 2, mad[:255]); err == nil {
		t.Error("255 bytes were sent")
	}
	binary.NativeEndian.PutUint32(b[umadStatus:], uint32(unix.ETIMEDOUT)) // a request without answer comes back first
	_, err1 := unix.Write(kernel, b[:n])
	_, err2 := unix.Write(kernel, b[:10])
	binary.NativeEndian.PutUint32(b[umadStatus:], 0)
	_, err3 := unix.Write(kernel, b[:n])
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if from, sl, err := u.ReceiveMAD(mad); from != 7 || sl != 2 || err != nil {
		t.Errorf("from %v, SL %d, %v", from, sl, err)
	}
}

// TestUmadMessages checks that an agent for messages of bridges registers by class, OUI and method, and that the kernel
// waits for no answer to one.
func TestUmadMessages(t *testing.T) {
	u, kernel := newAgent(t, &bridgeMessages,
		"00000000"+"01000000"+"4b01"+"0000"+"00000000"+"0800000000000000"+"0000000000000000"+"57430200"+"00000000")
	mad := ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{TID: 7, Data: []byte("a message")})
	if err := u.SendMAD(9, 3, mad); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := unix.Read(kernel, b)
	if err != nil || n != umadHdrLen+ib.MADLen || !bytes.Equal(b[umadHdrLen:n], mad) {
		t.Fatalf("the kernel got %d bytes, %v", n, err)
	}
	if want := "00000001" + "80010000" + "0009" + "03" + "00"; hexOf(b[umadQPN:umadGRH]) != want {
		t.Errorf("QPN, Q_Key, LID, SL: %s, want %s", hexOf(b[umadQPN:umadGRH]), want)
	}
	if agent, wait := b[umadAgent], binary.NativeEndian.Uint32(b[umadTimeout:]); agent != 5 || wait != 0 {
		t.Errorf("agent %d, timeout %d ms", agent, wait)
	}
	if _, err := unix.Write(kernel, b[:n]); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, ib.MADLen)
	from, _, err := u.ReceiveMAD(got)
	x, ok := ib.AsBridgeMAD(got)
	if err != nil || from != 9 || !ok || string(x.Data()) != "a message" {
		t.Errorf("received % x from %v, %v", got, from, err)
	}
	if err := (&Umad{}).attach(-1, "umad1", &bridgeMessages, func(_ int, request uint, _ []byte) error {
		if request == umadRegisterAgent2 {
			return unix.EINVAL
		}
		return nil
	}); err == nil || !strings.Contains(err.Error(), "register for messages of bridges: invalid argument; does another bridge use this port?") {
		t.Errorf("a port that another one has: %v", err)
	}
}

func TestUmadClose(t *testing.T) {
	u, _ := newUmad(t)
	ended := make(chan error)
	go func() {
		_, _, err := u.ReceiveMAD(make([]byte, ib.MADLen))
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if err := errors.Join(u.Close(), u.Close()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("ReceiveMAD found a MAD on a closed device")
		}
	case <-time.After(time.Minute):
		t.Fatal("ReceiveMAD still waits on a closed device")
	}
}

func TestUmadPortState(t *testing.T) {
	u, _ := newUmad(t)
	gid, _ := ib.ParseGID("fe80::2:c903:0:1")
	want := ib.PortState{Active: true, GID: gid, LID: 0x18, LMC: 3, SMLID: 7, SMSL: 2}
	if p, err := u.PortState(); err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	u.sys = os.DirFS(t.TempDir())
	if p, err := u.PortState(); err == nil {
		t.Errorf("a port that is gone: %+v", p)
	}
}
