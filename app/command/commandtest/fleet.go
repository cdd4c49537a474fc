// SPDX-License-Identifier: Apache-2.0

package commandtest

import "context"

// fleet does what the commands of a fleet say.
type fleet struct{}

// DrainFleet does nothing.
func (fleet) DrainFleet(context.Context) error { return nil }

// ResumeFleet does nothing.
func (fleet) ResumeFleet(context.Context) error { return nil }

// SetFleetWeight accepts any weight.
func (fleet) SetFleetWeight(float64) error { return nil }
