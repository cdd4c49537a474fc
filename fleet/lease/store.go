// SPDX-License-Identifier: Apache-2.0

// Package lease decides when a member of a fleet may forward: while it has a lease, which it renews in a store that all
// members share.
package lease

import (
	"context"
	"errors"
	"strconv"

	"causeway/fleet/shards"
)

// Epoch names an assignment. The zero Epoch is that of none.
type Epoch struct {
	Number uint64 `json:"number"` // of assignments so far, this one included
	// ID was drawn at random: a store that was set back gives the same number again, to another assignment.
	ID uint64 `json:"id"`
}

// String returns the number.
func (e Epoch) String() string { return strconv.FormatUint(e.Number, 10) }

// Record is what a member says of itself. Only the member writes it, but that whoever saw it die may end it.
type Record struct {
	Member string  `json:"member"`
	Weight float64 `json:"weight"`
	// Process is another number at each start, so that what a process that died says late is not taken for its
	// successor's.
	Process uint64 `json:"process"`
	// Claim counts the processes that have taken the member's name, this one included: one more than that of the last
	// one that it saw, and 1 where it saw none. A name that was lost is never had again by the same claim.
	Claim uint64 `json:"claim"`
	// Epoch is the assignment that it follows: it forwards no shard that this one, or a later one, does not give it.
	Epoch Epoch `json:"epoch"`
	// Renewals counts: a record that is written is a lease renewed.
	Renewals uint64 `json:"renewals"`
	// After is the Revision of the last record of the name that a process has seen which takes it: the store gives it the name
	// only in place of that one; 0: of any. It is not kept.
	After int64 `json:"-"`
	// Revision is the store's, of the record that an event tells of.
	Revision int64 `json:"-"`
	// Where is where the process is, for who ends its record (package whereabouts).
	Where string `json:"where,omitempty"`
	// Ended: it forwards nothing, and will not before it writes again.
	Ended bool `json:"ended"`
	// Unanimous: it would go on without the store while all others promise to propose nothing, and promise so to them.
	Unanimous bool `json:"unanimous,omitempty"`
	// Forwarded, in the first record after shards have passed, is what it forwarded of these since it began to leave them; nil: it
	// does not tell.
	Forwarded Forwarded `json:"forwarded"`
	Pass      uint64    `json:"pass,omitempty"` // as in Note, of what was forwarded
}

// Bits are a set of shards: one each, the lowest bit of a byte first.
type Bits []byte

// Forwarded tells packets apart, by 8 bytes each.
type Forwarded []byte

// Note is all that a member does now that shards are to pass without a loss. Nobody opens or closes a shard by it.
type Note struct {
	Leave
	Leaves Bits    `json:"leaves"`          // the shards that it is to pass, of which it notes what it forwards; nil: none
	Holds  []Leave `json:"holds,omitempty"` // it keeps what comes of the shards that these leave to it
	Here   []Leave `json:"here,omitempty"`  // of Holds those whose shards have passed to it: hosts reach them here from now on
}

// Leave names a time that a member's process has begun to leave shards, or has given that up.
type Leave struct {
	Member  string `json:"member"`
	Process uint64 `json:"process"`
	Pass    uint64 `json:"pass"` // counts
}

// Event is one change in the store, in the order in which changes were committed: an assignment, a note or a record.
type Event struct {
	Epoch      Epoch              // of the assignment
	Follows    Epoch              // the one before it
	Assignment *shards.Assignment // nil: the event is none
	Note       *Note              // nil: the event is none
	Complete   bool               // no change: what there was when the watch began has all come
	Record     Record
}

// ErrEpoch is returned when the store has another assignment than the caller follows, or another last record of a name than the
// caller has seen which takes it.
var ErrEpoch = errors.New("lease: the fleet has another assignment")

// ErrReplaced is returned when another process than the caller knows of has the member's name, and by Member.Run when that
// came after its own.
var ErrReplaced = errors.New("lease: another process has this member's name; give each bridge of the fleet a name of its own")

// Store keeps one assignment, the members' records, and which process has each member's name. A call that fails with another
// error than ErrEpoch and ErrReplaced may have been carried out all the same.
type Store interface {
	// Watch calls f with what there is, with an event that this is complete, and then with each change, in order and without gaps,
	// until ctx is done or it fails. What there is is a linearizable read's that begins after the call.
	Watch(ctx context.Context, f func(Event)) error
	// Renew writes a record if the assignment is the record's, and the member's name is the record's process's by the same
	// Claim, or another's by an earlier one and the name's last record that of the revision After, in one transaction. Without an
	// assignment its epoch is zero, and so is the claim of a name that nobody has. From then on the record's process has the name.
	Renew(ctx context.Context, r Record) error
	// Tell writes a member's note, in place of the one before.
	Tell(ctx context.Context, n Note) error
	// Propose writes an assignment, of the next number and another ID, if there is that of p.Epoch, and the name p.By.Member is
	// p.By's process's by its claim.
	Propose(ctx context.Context, p Proposal) error
}

// A Proposal is an assignment that is to follow another.
type Proposal struct {
	Epoch      Epoch // of the one that it is to follow
	Assignment *shards.Assignment
	By         *Record // of the member that proposes it, or of one that has ended; nil: of any
}
