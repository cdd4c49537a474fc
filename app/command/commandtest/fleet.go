// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"context"

	"causeway/fleet/shards"
)

// fleet does what the commands of a fleet say.
type fleet struct{}

// DrainFleet does nothing.
func (fleet) DrainFleet(context.Context) error { return nil }

// PassShards does nothing.
func (fleet) PassShards(context.Context) error { return nil }

// ResumeFleet does nothing.
func (fleet) ResumeFleet(context.Context) error { return nil }

// SetFleetWeight accepts any weight.
func (fleet) SetFleetWeight(float64) error { return nil }

// ChangeShards makes a change of a fleet of bridge-1 and bridge-2, where host/5 is the second's and host/6 pinned, and forgets it.
func (fleet) ChangeShards(_ context.Context, change func(*shards.Assignment) (*shards.Assignment, error)) error {
	pinned, err := shards.Plan([]shards.Member{{Name: "bridge-1", Weight: 1}, {Name: "bridge-2", Weight: 1}}, nil).Pin(6, "bridge-1")
	if err == nil {
		_, err = change(pinned)
	}
	return err
}
