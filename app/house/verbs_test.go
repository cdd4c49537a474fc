// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"strings"
	"testing"

	"causeway/ibside/verbs"
)

// TestLossOf wants the loss of the device, and no lesser event, to end the bridge with the error that tells.
func TestLossOf(t *testing.T) {
	for _, kind := range []verbs.EventKind{
		verbs.EventDeviceGone, verbs.EventDeviceFatal, verbs.EventCQError, verbs.EventSRQError, verbs.EventPKeyLost,
	} {
		if err := lossOf("mlx5_0", kind); !errors.Is(err, ErrDeviceGone) || !strings.Contains(err.Error(), "mlx5_0") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, kind := range []verbs.EventKind{verbs.EventPortDown, verbs.EventGID, verbs.EventPKey, verbs.EventQPFatal, verbs.EventOther} {
		if err := lossOf("mlx5_0", kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
