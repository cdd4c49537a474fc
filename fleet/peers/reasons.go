// SPDX-License-Identifier: Apache-2.0

package peers

// reason is why a message was not taken, or not sent.
type reason int

const (
	taken reason = iota
	notJoined
	malformed
	otherVersion
	otherFabric
	otherFleet
	otherReceiver
	unsigned
	unknownSender
	replayed
	badBFD
	queueFull
	unsent
	reasons
)

// reasonNames are what operators see.
var reasonNames = [reasons]string{
	notJoined:     "not_joined",     // etcd has not told the fleet's secret yet
	malformed:     "malformed",      // the length is wrong
	otherVersion:  "other_version",  // of the trailer
	otherFabric:   "other_fabric",   // it was sent by another one than it came by
	otherFleet:    "other_fleet",    // another name, or another etcd
	otherReceiver: "other_receiver", // another process than this one, such as the one before it
	unsigned:      "unsigned",       // it was not made with the fleet's secret
	unknownSender: "unknown_sender", // etcd has not told of this process yet, or it is another's past
	replayed:      "replayed",       // its counter is not above the last one's: it was overtaken, or recorded
	badBFD:        "bad_bfd",        // the BFD packet was discarded
	queueFull:     "queue_full",     // more came than is taken in
	unsent:        "unsent",         // a way could not send it
}

func (p *Peers) drop(why reason) { p.dropped[why].Add(1) }

// Dropped returns how many messages were not taken, or not sent, by reason. Any goroutine may call it.
func (p *Peers) Dropped() map[string]uint64 {
	all := map[string]uint64{}
	for why := taken + 1; why < reasons; why++ {
		all[reasonNames[why]] = p.dropped[why].Load()
	}
	return all
}
