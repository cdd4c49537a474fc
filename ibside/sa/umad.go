// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
)

// Offsets in the header that precedes a MAD in reads and writes (struct ib_user_mad_hdr of rdma/ib_user_mad.h); numbers
// are in the machine's byte order unless noted.
const (
	umadHdrLen  = 64
	umadAgent   = 0
	umadStatus  = 4 // errno
	umadTimeout = 8 // milliseconds
	umadLength  = 16
	umadQPN     = 20 // big-endian
	umadQKey    = 24 // big-endian
	umadLID     = 28 // big-endian
	umadSL      = 30
	umadGRH     = 32
	umadPKey    = 56 // index
)

// Offsets in a registration (struct ib_user_mad_reg_req2).
const (
	umadRegLen     = 40
	umadRegID      = 0 // the kernel's answer
	umadRegQPN     = 4
	umadRegClass   = 8
	umadRegVersion = 9
	umadRegFlags   = 12
	umadRegMethods = 16 // 128 bits
	umadRegOUI     = 32
	umadRegRMPP    = 36

	umadUserRMPP = 1 // the kernel leaves tables to us, segment by segment
)

// ioctls of the device (rdma/rdma_user_ioctl.h).
const (
	umadEnablePKey     = 0x1b03
	umadRegisterAgent2 = 0xc0281b04
)

// umadPatience is how long the kernel keeps a request, so that it can assign the answer to it. A client gives up a try
// sooner: its own timeouts decide.
const umadPatience = 20 * time.Second

// Umad is a port of a channel adapter, used through the kernel's device for MADs, without a library. Only one program
// at a port can get notices: registering fails when another, such as srp_daemon, gets them.
type Umad struct {
	sys    fs.FS // /sys/class/infiniband/DEVICE/ports/PORT
	file   *os.File
	agent  uint32
	pkey   uint16 // index of the default partition's key
	closed sync.Once
}

// An agent is what a program takes at a port: answers to its own requests of a class, and those unsolicited MADs of it
// that have one of some methods.
type agent struct {
	what    string // for errors: what for, and why it may fail
	hint    string
	class   uint8
	version uint8
	oui     uint32 // of a vendor's class of range 2; else 0
	methods uint64 // bits by number; the kernel takes 128
	rmpp    bool   // the kernel leaves tables to us, segment by segment
}

var (
	// subnetAdministration takes answers to our requests, and reports, which are unsolicited.
	subnetAdministration = agent{
		what: "subnet administration", hint: "does another program on this port take notices, such as srp_daemon?",
		class: ib.ClassSA, version: ib.ClassVersionSA, methods: 1 << ib.MethodReport, rmpp: true,
	}
	bridgeMessages = agent{
		what: "messages of bridges", hint: "does another bridge use this port?",
		class: ib.ClassBridge, version: ib.ClassVersionBridge, oui: ib.OUIBridge, methods: 1 << ib.MethodSend,
	}
)

// OpenUmad opens the device of a port, such as "mlx5_0" and 1. It needs the right to open /dev/infiniband/umadN, which
// only root has unless a udev rule says otherwise.
func OpenUmad(device string, port int) (*Umad, error) {
	return openAgent(device, port, &subnetAdministration)
}

// OpenMessages opens the device of a port for messages of bridges, besides whoever else has it open. ReceiveMAD returns
// these, and SendMAD sends them.
func OpenMessages(device string, port int) (*Umad, error) {
	return openAgent(device, port, &bridgeMessages)
}

func openAgent(device string, port int, a *agent) (*Umad, error) {
	u, err := openUmad("/sys/class", "/dev/infiniband", device, port, a)
	if err != nil {
		return nil, fmt.Errorf("sa: port %s:%d: %w", device, port, err)
	}
	return u, nil
}

func openUmad(sysClass, dev, device string, port int, a *agent) (*Umad, error) {
	name, err := umadName(sysClass, device, port)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dev, name)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is not there; is udev running, and in a container, was the device passed in?", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w; run as root, or give the user the device by a udev rule", path, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	u := &Umad{sys: os.DirFS(filepath.Join(sysClass, "infiniband", device, "ports", fmt.Sprint(port)))}
	if err := u.attach(fd, path, a, ioctl); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return u, nil
}

// attach registers an agent on an open device, which it then owns.
func (u *Umad) attach(fd int, path string, a *agent, ioctl func(fd int, request uint, arg []byte) error) error {
	if err := ioctl(fd, umadEnablePKey, nil); err != nil {
		return fmt.Errorf("%s: %w; is it a user_mad device?", path, err)
	}
	reg := a.registration()
	if err := ioctl(fd, umadRegisterAgent2, reg); err != nil {
		return fmt.Errorf("%s: register for %s: %w; %s", path, a.what, err, a.hint)
	}
	u.agent = binary.NativeEndian.Uint32(reg[umadRegID:])
	keys, err := readPKeys(u.sys)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if k&0x7fff == ib.PKeyDefault&0x7fff {
			u.pkey = uint16(i) // every SA is in this partition
			break
		}
	}
	u.file = os.NewFile(uintptr(fd), path)
	return nil
}

// registration is what registers the agent.
func (a *agent) registration() []byte {
	b := make([]byte, umadRegLen)
	binary.NativeEndian.PutUint32(b[umadRegQPN:], uint32(ib.QP1))
	b[umadRegClass], b[umadRegVersion] = a.class, a.version
	binary.NativeEndian.PutUint64(b[umadRegMethods:], a.methods)
	binary.NativeEndian.PutUint32(b[umadRegOUI:], a.oui)
	if a.rmpp {
		binary.NativeEndian.PutUint32(b[umadRegFlags:], umadUserRMPP)
		b[umadRegRMPP] = ib.RMPPVersion
	}
	return b
}

// SendMAD implements Transport.
func (u *Umad) SendMAD(to ib.LID, sl ib.SL, mad []byte) error {
	if len(mad) != ib.MADLen {
		return errNotMAD
	}
	b := make([]byte, umadHdrLen+ib.MADLen)
	binary.NativeEndian.PutUint32(b[umadAgent:], u.agent)
	if expectsAnswer(mad) {
		binary.NativeEndian.PutUint32(b[umadTimeout:], uint32(umadPatience.Milliseconds()))
	}
	binary.NativeEndian.PutUint32(b[umadLength:], uint32(len(b)))
	binary.BigEndian.PutUint32(b[umadQPN:], uint32(ib.QP1))
	binary.BigEndian.PutUint32(b[umadQKey:], uint32(ib.QKeyGSI))
	binary.BigEndian.PutUint16(b[umadLID:], uint16(to))
	b[umadSL] = uint8(sl)
	binary.NativeEndian.PutUint16(b[umadPKey:], u.pkey)
	copy(b[umadHdrLen:], mad)
	_, err := u.file.Write(b)
	return err
}

// expectsAnswer reports whether the kernel should keep a MAD until its answer comes: otherwise it would drop the
// answer. To a Send there is none.
func expectsAnswer(mad []byte) bool {
	m, _ := ib.AsMAD(mad)
	if m.Method() == ib.MethodSend {
		return false
	}
	h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:])
	return !m.IsResponse() && h.RMPPFlags()&ib.RMPPFlagActive == 0
}

// ReceiveMAD implements Transport. Requests that the kernel returns because they got no answer are ignored.
func (u *Umad) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	b := make([]byte, umadHdrLen+ib.MADLen)
	for {
		n, err := u.file.Read(b)
		if err != nil {
			return 0, 0, err
		}
		if n != len(b) || binary.NativeEndian.Uint32(b[umadStatus:]) != 0 {
			continue
		}
		copy(mad, b[umadHdrLen:])
		return ib.LID(binary.BigEndian.Uint16(b[umadLID:])), ib.SL(b[umadSL]), nil
	}
}

// PortState implements Transport.
func (u *Umad) PortState() (ib.PortState, error) {
	p, err := readPort(u.sys)
	if err != nil {
		return p, fmt.Errorf("sa: %w", err)
	}
	return p, nil
}

// Close implements Transport.
func (u *Umad) Close() (err error) {
	u.closed.Do(func() { err = u.file.Close() })
	return err
}

var _ Transport = (*Umad)(nil)
