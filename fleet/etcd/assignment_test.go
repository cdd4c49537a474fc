// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"causeway/fleet/right"
	"causeway/fleet/shares"
)

// TestForeignOwner: an owner or an heir that is none of the members is no assignment of this version.
func TestForeignOwner(t *testing.T) {
	a := shares.Plan([]shares.Member{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}, nil)
	for _, owners := range []*[shares.Count]int8{&a.Owner, &a.Heir} {
		for _, c := range []struct {
			owner int8
			good  bool
		}{{-2, false}, {shares.Nobody, true}, {0, true}, {1, true}, {2, false}} {
			was := owners[7]
			owners[7] = c.owner
			text, err := encode(right.Epoch{Number: 3, ID: 7}, right.Epoch{Number: 2, ID: 9}, a)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := decode(text); (err == nil) != c.good || c.good && (e.Epoch != right.Epoch{Number: 3, ID: 7} || e.Follows != right.Epoch{Number: 2, ID: 9}) {
				t.Errorf("member %d of 2: %+v, %v", c.owner, e, err)
			}
			owners[7] = was
		}
	}
}
