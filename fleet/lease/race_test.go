// SPDX-License-Identifier: Apache-2.0

//go:build race

package lease

// race: the race detector is on.
const race = true
