// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"time"

	"causeway/app/command"
	"causeway/app/seats"
)

// Classes of clients. Each has seats of its own, so that none can lock out another.
const (
	roots     = iota // root, by the Unix socket
	admins           // those who may make changes: known by the Unix socket, or logged in
	users            // others that the Unix socket knows
	strangers        // TCP clients that have not logged in
	classes
)

// seatsOf is how many sessions of a class there may be.
var seatsOf = [classes]int{roots: 16, admins: 16, users: 16, strangers: 16}

// newSeats returns the seats of all classes. Anybody may be a stranger, so nobody keeps a place there by being first.
func newSeats() (all [classes]*seats.Seats) {
	for c := range all {
		all[c] = seats.New(seatsOf[c], c == strangers)
	}
	return all
}

// classOf returns the class of a client; user is "" when it is not known.
func classOf(role command.Role, user string) int {
	switch {
	case user == "":
		return strangers
	case role == command.Admin && user == rootUser:
		return roots
	case role == command.Admin:
		return admins
	}
	return users
}

func crowded(class int) string {
	return fmt.Sprintf("There are %d sessions already; try again when one has ended.", seatsOf[class])
}

// takeSeat gives the session a seat of its class, in place of the one that it has.
func (x *session) takeSeat() bool {
	peer, class := x.known, classOf(x.role, x.known)
	if peer == "" {
		peer = seats.PeerOf(x.conn)
		if x.role == command.Admin { // logged in
			class = admins
		}
	}
	x.class = class
	seat, ok := x.server.seats[class].Take(peer, x.giveUp)
	if !ok {
		return false
	}
	if x.seat != nil {
		x.seat.Leave()
	}
	x.seat = seat
	return true
}

// farewell is how long the last words to a client may take.
const farewell = 100 * time.Millisecond

// giveUp ends a session whose seat another has, without waiting for its client.
func (x *session) giveUp() {
	x.server.all.Go(func() {
		_ = x.conn.SetWriteDeadline(time.Now().Add(farewell))
		_, _ = x.conn.Write([]byte("\r\nThe session ends: another one needs its place.\r\n")) // the client may be stuck
		_ = x.conn.Close()
	})
}
