// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"causeway/fleet/lease"
	"causeway/fleet/shards"
)

// TestForeignOwner: an owner or a successor that is none of the members is no assignment of this version.
func TestForeignOwner(t *testing.T) {
	a := shards.Plan([]shards.Member{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}, nil)
	for _, owners := range []*[shards.Count]int8{&a.Owner, &a.Successor} {
		for _, c := range []struct {
			owner int8
			good  bool
		}{{-2, false}, {shards.Nobody, true}, {0, true}, {1, true}, {2, false}} {
			was := owners[7]
			owners[7] = c.owner
			text, err := encode(lease.Epoch{Number: 3, ID: 7}, lease.Epoch{Number: 2, ID: 9}, a)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := decode(text); (err == nil) != c.good || c.good && (e.Epoch != lease.Epoch{Number: 3, ID: 7} || e.Follows != lease.Epoch{Number: 2, ID: 9}) {
				t.Errorf("member %d of 2: %+v, %v", c.owner, e, err)
			}
			owners[7] = was
		}
	}
}
