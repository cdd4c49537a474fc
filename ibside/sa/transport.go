// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

// Transport carries MADs of subnet administration between QP1 of one port and QP1 of others, in the default partition
// and without GRH. Its types are only those of package ib, so that implementations need not import this package.
// All methods may be called at the same time; ReceiveMAD by one goroutine.
type Transport interface {
	// SendMAD sends ib.MADLen bytes. Its buffer is the caller's again when it returns. Of the transaction ID of a
	// request only the lower 32 bits arrive unchanged: the kernel and simulators put their own routing into the upper
	// ones.
	SendMAD(to ib.LID, sl ib.SL, mad []byte) error
	// ReceiveMAD waits for the next MAD and writes it to mad, which has ib.MADLen bytes. After Close it returns an
	// error at once. Every error except a *LostError ends the transport.
	ReceiveMAD(mad []byte) (from ib.LID, sl ib.SL, err error)
	// PortState returns the port's present state.
	PortState() (ib.PortState, error)
	// Close makes the other calls return.
	Close() error
}

// LostError is ReceiveMAD's error when a transport knows that a request gets no answer, or none that can be used.
type LostError struct {
	TID uint64 // of the request
	Err error
}

func (e *LostError) Error() string { return fmt.Sprintf("sa: request %#x: %v", e.TID, e.Err) }

// Unwrap returns why.
func (e *LostError) Unwrap() error { return e.Err }

// The errors of a request, besides a Rejection.
var (
	// ErrTimeout means that the SA answered none of the tries.
	ErrTimeout = errors.New("the SA does not answer")
	// ErrUnreachable means that no port takes MADs at the SA's LID, or that no subnet administrator runs there: then the
	// kernel of that port answers in its place.
	ErrUnreachable = errors.New("there is no SA at the SM's LID")
	// ErrTooLarge means that a table is larger than Config.MaxTable.
	ErrTooLarge = errors.New("the table is too large")
	// ErrNoSM means that the port does not know where the SA is: no subnet manager has configured it yet.
	ErrNoSM = errors.New("the port has no SM: is a subnet manager running?")
	// ErrMalformed means that an answer cannot be parsed.
	ErrMalformed = errors.New("the answer is malformed")
	errNotMAD    = errors.New("not the length of a MAD")
	// ErrClosed means that the client or its transport was closed.
	ErrClosed = errors.New("closed")
)

// Rejection is the status of an answer that is no success; compare with errors.Is.
type Rejection uint16

// The statuses of subnet administration.
const (
	NoResources            Rejection = ib.SAStatusNoResources
	RequestInvalid         Rejection = ib.SAStatusRequestInvalid
	NoRecords              Rejection = ib.SAStatusNoRecords
	TooManyRecords         Rejection = ib.SAStatusTooManyRecords
	InvalidGID             Rejection = ib.SAStatusInvalidGID
	InsufficientComponents Rejection = ib.SAStatusInsufficientFields
	Denied                 Rejection = ib.SAStatusDenied
	Busy                   Rejection = ib.MADStatusBusy // until the last try
)

// statusField is an error of a MAD itself, not of subnet administration (IBTA vol 1 §13.4.7).
const statusField = 0x001c

func (r Rejection) Error() string {
	return fmt.Sprintf("rejected by the SA: %s (status 0x%04x)", r.word(), uint16(r))
}

func (r Rejection) word() string {
	switch r {
	case NoResources:
		return "it has no resources"
	case RequestInvalid:
		return "no such group, or parameters that do not fit it, the port or the partition"
	case NoRecords:
		return "no such record"
	case TooManyRecords:
		return "more than one record"
	case InvalidGID:
		return "no such GID"
	case InsufficientComponents:
		return "components are missing; a group that is not there needs all of a creation"
	case Denied:
		return "denied"
	case Busy:
		return "busy"
	}
	if r&statusField != 0 {
		return "it does not know such a request"
	}
	return "a status without a name"
}
