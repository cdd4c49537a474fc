// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// SAError is the administrator's refusal.
type SAError struct {
	Doing  string
	Status uint16 // of the MAD: an ib.SAStatus constant
}

func (e *SAError) Error() string {
	return fmt.Sprintf("fabric: %s: refused by the SA: %s (status 0x%04x)", e.Doing, statusWord(e.Status), e.Status)
}

// ErrSATimeout means that the administrator did not answer, however often it was asked.
var ErrSATimeout = errors.New("fabric: the SA does not answer")

// SAClient asks the subnet administrator over QP1 of an HCA. It takes all of the HCA's SA datagrams: one client an
// HCA. Its methods may be called from any goroutine.
type SAClient struct {
	// Timeout is how long to wait for an answer before the next try. Set before the first request.
	Timeout time.Duration
	// Tries is how often to ask.
	Tries int

	hca     *HCA
	mu      sync.Mutex
	pending map[uint64]chan []byte // by transaction ID
	nextTID uint64
}

// NewSAClient makes the client of an HCA, patient for two seconds.
func NewSAClient(h *HCA) *SAClient {
	c := &SAClient{
		Timeout: 500 * time.Millisecond, Tries: 4, hca: h, pending: map[uint64]chan []byte{}, nextTID: rand.Uint64(),
	}
	h.HandleMAD(ib.ClassSA, c.handle)
	return c
}

// handle brings an answer to who waits for it. Only the administrator is believed.
func (c *SAClient) handle(from MADAddress, b []byte) {
	mad, _ := ib.AsMAD(b)
	if !mad.IsResponse() || !mad.IsSA() || from.LID != c.hca.info.SMLID {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.pending[mad.TID()]; waiting != nil {
		select {
		case waiting <- b:
		default: // a second answer to a request sent twice
		}
	}
}

// Query sends one request and returns the status and the attribute data of its answer.
func (c *SAClient) Query(ctx context.Context, method uint8, attr uint16, mask uint64, data []byte) (uint16, []byte, error) {
	answers := make(chan []byte, 1)
	c.mu.Lock()
	c.nextTID++
	tid := c.nextTID
	c.pending[tid] = answers
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, tid)
		c.mu.Unlock()
	}()
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: method, TID: tid, AttrID: attr,
	})
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{Components: mask})
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], data)
	return c.exchange(ctx, b, answers)
}

func (c *SAClient) exchange(ctx context.Context, request []byte, answers chan []byte) (uint16, []byte, error) {
	for range max(1, c.Tries) {
		if cause := c.hca.SendMAD(MADAddress{LID: c.hca.info.SMLID}, request); cause == DropPortClosed {
			return 0, nil, ErrClosed
		}
		again := time.NewTimer(c.Timeout)
		select {
		case b := <-answers:
			again.Stop()
			mad, _ := ib.AsMAD(b)
			return mad.Status(), b[ib.MADHdrLen+ib.SAHdrLen:], nil
		case <-ctx.Done():
			again.Stop()
			return 0, nil, ctx.Err()
		case <-again.C:
		}
	}
	return 0, nil, ErrSATimeout
}

// Join makes the port a member of a group with f.JoinState and returns the group's record. The group, when it is
// there, must have f's Q_Key and P_Key. When it is not, a full or send-only full member creates it with
// all that f says; its MTU and rate are f's unless they are zero. A zero MGID lets the SA choose one.
func (c *SAClient) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	if f.PortGID.IsZero() {
		f.PortGID = c.hca.info.GID
	}
	doing := fmt.Sprintf("join %v", f.MGID)
	rec, err := c.member(ctx, doing, ib.MethodSet, ib.MCMemberJoin|ib.MCMemberQKey|ib.MCMemberPKey, f)
	var refused *SAError
	if !errors.As(err, &refused) || refused.Status != ib.SAStatusInsufficientFields {
		return rec, err
	}
	mask := ib.MCMemberCreate | ib.MCMemberHopLimit
	if f.MTU != 0 {
		mask |= ib.MCMemberMTUSelector | ib.MCMemberMTU
	}
	if f.Rate != 0 {
		mask |= ib.MCMemberRateSelector | ib.MCMemberRate
	}
	return c.member(ctx, doing, ib.MethodSet, mask, f)
}

// Leave takes a join state of the port from a group.
func (c *SAClient) Leave(ctx context.Context, mgid ib.GID, joinState uint8) error {
	f := ib.MCMemberFields{MGID: mgid, PortGID: c.hca.info.GID, JoinState: joinState}
	_, err := c.member(ctx, fmt.Sprintf("leave %v", mgid), ib.MethodDelete, ib.MCMemberJoin, f)
	return err
}

// Group returns the record of a group.
func (c *SAClient) Group(ctx context.Context, mgid ib.GID) (ib.MCMemberFields, error) {
	f := ib.MCMemberFields{MGID: mgid}
	return c.member(ctx, fmt.Sprintf("look up %v", mgid), ib.MethodGet, ib.MCMemberMGID, f)
}

func (c *SAClient) member(ctx context.Context, doing string, method uint8, mask uint64, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	data := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(data, f)
	status, data, err := c.Query(ctx, method, ib.AttrMCMemberRecord, mask, data)
	if err != nil {
		return ib.MCMemberFields{}, fmt.Errorf("%s: %w", doing, err)
	}
	if status != ib.SAStatusOK {
		return ib.MCMemberFields{}, &SAError{doing, status}
	}
	rec, _ := ib.AsMCMemberRecord(data)
	return rec.Fields(), nil
}

// Path returns the path from the port to dgid, which may be a group.
func (c *SAClient) Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error) {
	return c.path(ctx, fmt.Sprintf("path to %v", dgid), ib.PathResolve,
		ib.PathFields{DGID: dgid, SGID: c.hca.info.GID, Reversible: true, NumbPath: 1})
}

// PathToLID returns the path from the port to a LID.
func (c *SAClient) PathToLID(ctx context.Context, dlid ib.LID) (ib.PathFields, error) {
	return c.path(ctx, fmt.Sprintf("path to LID %v", dlid), ib.PathDLID|ib.PathSGID|ib.PathReversible|ib.PathNumbPath,
		ib.PathFields{DLID: dlid, SGID: c.hca.info.GID, Reversible: true, NumbPath: 1})
}

func (c *SAClient) path(ctx context.Context, doing string, mask uint64, f ib.PathFields) (ib.PathFields, error) {
	data := make([]byte, ib.PathRecordLen)
	ib.PutPathRecord(data, f)
	status, data, err := c.Query(ctx, ib.MethodGet, ib.AttrPathRecord, mask, data)
	if err != nil {
		return ib.PathFields{}, fmt.Errorf("%s: %w", doing, err)
	}
	if status != ib.SAStatusOK {
		return ib.PathFields{}, &SAError{doing, status}
	}
	rec, _ := ib.AsPathRecord(data)
	return rec.Fields(), nil
}
