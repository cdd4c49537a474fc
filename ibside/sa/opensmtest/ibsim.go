// SPDX-License-Identifier: Apache-2.0

package opensmtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// Messages of ibsim's control socket, in the machine's byte order (ibsim.h): magic, client, type, length, data.
const (
	ibsimMagic   = 0xdeadbeef
	ibsimCtlLen  = 16 + ibsimCtlData
	ibsimCtlData = 64

	ibsimError      = 0
	ibsimConnect    = 1
	ibsimDisconnect = 2
	ibsimNodeInfo   = 7
	ibsimPortInfo   = 8
)

// A datagram of ibsim's data sockets (ibsim.h struct sim_request): DLID, SLID, destination and source QPN and status in
// 32 bits each, 4 bytes of padding, the length in 64 bits, and the MAD; all big-endian, the LIDs in the upper half.
const (
	ibsimDLID   = 0
	ibsimSLID   = 4
	ibsimDQP    = 8
	ibsimSQP    = 12
	ibsimStatus = 16
	ibsimLength = 24
	ibsimMAD    = 32
	ibsimLen    = ibsimMAD + ib.MADLen
)

// tableFrom is where a table's data begins in a MAD of RMPP, whose length field counts from there.
const tableFrom = ib.MADHdrLen + 12

// ibsimPatience is how long the simulator may take to answer on its control socket. It has one thread and is quick, but
// the machine may be busy.
const ibsimPatience = time.Minute

// Ibsim is a port of ibsim's simulated subnet, which a real opensm manages. It uses the protocol of libumad2sim:
// datagrams on Unix sockets with abstract names. Data and tables of more than one MAD are not transported; see
// LostError.
type Ibsim struct {
	ctlMu  sync.Mutex
	ctl    *net.UnixConn
	data   *net.UnixConn
	out    *net.UnixAddr // where the simulator takes this client's MADs
	client uint32        // the simulator's number for this client
	guid   ib.GUID       // the port's
}

// DialIbsim attaches to a host of the subnet. The name is that of the simulator's sockets, $IBSIM_SOCKNAME or "sim".
// Unsolicited MADs, such as notices, go to one client of a host: the first that connects.
func DialIbsim(name, host string) (*Ibsim, error) {
	s := &Ibsim{}
	if err := s.dial(name, host); err != nil {
		s.closeSockets()
		return nil, fmt.Errorf("sa: ibsim %q, host %q: %w", name, host, err)
	}
	return s, nil
}

// ibsimAddr makes an abstract name. ibsim counts a zero byte at its end as a part of it.
func ibsimAddr(format string, a ...any) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: "@" + fmt.Sprintf(format, a...) + "\x00"}
}

// dialControl waits for the simulator's control socket, which it makes after it has said that it is ready.
func dialControl(name string, id int32) (c *net.UnixConn, err error) {
	for until := time.Now().Add(ibsimPatience); ; time.Sleep(5 * time.Millisecond) {
		c, err = net.DialUnix("unixgram", ibsimAddr("%s:ctl%d", name, id), ibsimAddr("%s:ctl", name))
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(until) {
			return c, err
		}
	}
}

func (s *Ibsim) dial(name, host string) (err error) {
	id := rand.Int32N(1<<30) + 1<<22 // larger than any process ID, which other clients use
	if s.ctl, err = dialControl(name, id); err != nil {
		return err
	}
	if s.data, err = net.ListenUnixgram("unixgram", ibsimAddr("%s:in%d", name, id)); err != nil {
		return err
	}
	var hello [ibsimCtlData]byte // id, QPN, whether it takes requests, the host's name in 32 bytes
	binary.NativeEndian.PutUint32(hello[0:], uint32(id))
	binary.NativeEndian.PutUint32(hello[8:], 1)
	if len(host) >= 32 {
		return errors.New("the host's name is too long")
	}
	copy(hello[12:], host)
	answer, err := s.control(ibsimConnect, hello[:])
	if err != nil {
		return fmt.Errorf("%w; is the host in the network file, and no other client there?", err)
	}
	s.client = binary.NativeEndian.Uint32(answer)
	s.out = ibsimAddr("%s:out%d", name, s.client)
	node, err := s.control(ibsimNodeInfo, nil)
	if err != nil {
		return err
	}
	s.guid = ibsimPortGUID(node)
	return nil
}

// ibsimPortGUID finds the GUID of port 1 in a NodeInfo (IBTA vol 1 §14.2.5.3). ibsim fills the port's own field only
// in answers to MADs, and counts GUIDs up from the node's.
func ibsimPortGUID(nodeInfo []byte) ib.GUID {
	return ib.GUID(binary.BigEndian.Uint64(nodeInfo[12:]) + 1)
}

// control sends a request on the control socket and returns the answer's data.
func (s *Ibsim) control(kind uint32, data []byte) ([]byte, error) {
	s.ctlMu.Lock()
	defer s.ctlMu.Unlock()
	if s.ctl == nil {
		return nil, sa.ErrClosed
	}
	b := make([]byte, ibsimCtlLen)
	for i, word := range []uint32{ibsimMagic, s.client, kind, uint32(len(data))} {
		binary.NativeEndian.PutUint32(b[4*i:], word)
	}
	copy(b[16:], data)
	if err := s.ctl.SetDeadline(time.Now().Add(ibsimPatience)); err != nil {
		return nil, err
	}
	if _, err := s.ctl.Write(b); err != nil {
		return nil, err
	}
	for {
		n, err := s.ctl.Read(b)
		switch answered := binary.NativeEndian.Uint32(b[8:]); {
		case err != nil:
			return nil, err
		case n != ibsimCtlLen || binary.NativeEndian.Uint32(b) != ibsimMagic:
			return nil, errors.New("not an answer of ibsim")
		case answered == ibsimError:
			return nil, errors.New("rejected")
		case answered == kind: // otherwise it is one that came too late
			return b[16:], nil
		}
	}
}

// SendMAD implements Transport. The simulator has no service levels. Acknowledgements of tables are not sent: on
// opensm's side there is no kernel that would handle them, and opensm would answer them like requests.
func (s *Ibsim) SendMAD(to ib.LID, _ ib.SL, mad []byte) error {
	if len(mad) != ib.MADLen {
		return fmt.Errorf("sa: a MAD of %d bytes, not %d", len(mad), ib.MADLen)
	}
	if h, _ := ib.AsSAHeader(mad[ib.MADHdrLen:]); h.RMPPFlags()&ib.RMPPFlagActive != 0 {
		return nil
	}
	b := make([]byte, ibsimLen)
	binary.BigEndian.PutUint16(b[ibsimDLID:], uint16(to))
	binary.BigEndian.PutUint32(b[ibsimDQP:], uint32(ib.QP1))
	binary.BigEndian.PutUint32(b[ibsimSQP:], uint32(ib.QP1))
	binary.BigEndian.PutUint64(b[ibsimLength:], ib.MADLen)
	copy(b[ibsimMAD:], mad)
	_, err := s.data.WriteToUnix(b, s.out)
	return err
}

// ReceiveMAD implements Transport.
func (s *Ibsim) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	b := make([]byte, ibsimLen)
	for {
		n, err := s.data.Read(b)
		if err != nil {
			return 0, 0, err
		}
		if n != ibsimLen {
			continue
		}
		from, err := ibsimReceived(b)
		if err != nil {
			return 0, 0, err
		}
		copy(mad, b[ibsimMAD:])
		return from, 0, nil
	}
}

// ErrTruncated means that only the beginning of a table arrived.
var ErrTruncated = errors.New("the answer needs more than one MAD, which the simulator does not carry")

// ibsimReceived returns the sender of a datagram, ibsimLen bytes. It is a sa.LostError when the simulator brings back
// what it could not deliver, and when it cut a table. To a table that it did not cut it does what the sender's kernel
// would have done: opensm only says that RMPP is to be used.
func ibsimReceived(b []byte) (ib.LID, error) {
	mad, _ := ib.AsMAD(b[ibsimMAD:])
	length := binary.BigEndian.Uint64(b[ibsimLength:])
	switch head, _ := ib.AsSAHeader(b[ibsimMAD+ib.MADHdrLen:]); {
	case binary.BigEndian.Uint32(b[ibsimStatus:]) != 0:
		return 0, &sa.LostError{TID: mad.TID(), Err: sa.ErrUnreachable}
	case !mad.IsSA() || !mad.IsResponse() || head.RMPPFlags()&ib.RMPPFlagActive == 0:
	case length >= ib.MADLen: // no records fill a MAD exactly, so these were cut
		return 0, &sa.LostError{TID: mad.TID(), Err: ErrTruncated}
	case head.RMPPType() == 0:
		f := head.Fields()
		f.RMPPVersion, f.RMPPType = ib.RMPPVersion, ib.RMPPTypeData
		f.RMPPFlags = ib.RMPPFlagActive | ib.RMPPFlagFirst | ib.RMPPFlagLast
		f.RMPPData1, f.RMPPData2 = 1, uint32(max(length, tableFrom)-tableFrom)
		ib.PutSAHeader(b[ibsimMAD+ib.MADHdrLen:], f)
	}
	return ib.LID(binary.BigEndian.Uint16(b[ibsimSLID:])), nil
}

// PortState implements Transport.
func (s *Ibsim) PortState() (ib.PortState, error) {
	info, err := s.control(ibsimPortInfo, []byte{0})
	if err != nil {
		return ib.PortState{}, fmt.Errorf("sa: ibsim: %w", err)
	}
	return portStateOf(info, s.guid), nil
}

// portStateOf parses a PortInfo (IBTA vol 1 §14.2.5.6), 64 bytes.
func portStateOf(info []byte, guid ib.GUID) ib.PortState {
	const active = 4
	return ib.PortState{
		Active: info[32]&0x0f == active,
		GID:    ib.GIDFromGUID(binary.BigEndian.Uint64(info[8:]), guid),
		LID:    ib.LID(binary.BigEndian.Uint16(info[16:])), LMC: info[34] & 7,
		SMLID: ib.LID(binary.BigEndian.Uint16(info[18:])), SMSL: ib.SL(info[36] & 0x0f),
	}
}

// Close implements Transport. It frees the client's place in the simulator, which has only ten.
func (s *Ibsim) Close() error {
	_, err := s.control(ibsimDisconnect, nil)
	if errors.Is(err, sa.ErrClosed) {
		return nil
	}
	return errors.Join(err, s.closeSockets())
}

func (s *Ibsim) closeSockets() error {
	s.ctlMu.Lock()
	defer s.ctlMu.Unlock()
	var errs []error
	if s.ctl != nil {
		errs = append(errs, s.ctl.Close())
	}
	if s.data != nil {
		errs = append(errs, s.data.Close())
	}
	s.ctl = nil
	return errors.Join(errs...)
}

var _ sa.Transport = (*Ibsim)(nil)
