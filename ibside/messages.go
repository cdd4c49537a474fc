// SPDX-License-Identifier: Apache-2.0

package ibside

import (
	"errors"

	"causeway/ibside/ib"
)

// A Messenger is a Port by which bridges of a fleet send each other messages, without etcd and without a connection. A
// message may be lost, come twice or late, and be anybody's: whoever uses a Messenger must know a forged one.
type Messenger interface {
	// ReceiveMessages has h called with each message that comes, one at a time, until the Port is closed. from is the LID
	// that it was sent from, on the fabric that it came by. h may neither block nor keep data. It is called once, before
	// SendMessage. An error says why the port cannot.
	ReceiveMessages(h func(from ib.LID, data []byte)) error
	// SendMessage sends at most ib.BridgeDataLen bytes to the port that has a GID. It does not wait: while the path is not
	// known, which the port then asks for in the background, the message is dropped, and the error is an ErrPathUnknown.
	// data is the caller's again when it returns. Any goroutine may call it.
	SendMessage(to ib.GID, data []byte) error
}

// ErrPathUnknown is in the error of SendMessage while the port asks for the path.
var ErrPathUnknown = errors.New("the path is not known yet")
