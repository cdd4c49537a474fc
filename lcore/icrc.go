// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "icrc.h"
import "C"

// ICRCVersion returns the name of the version of the ICRC that the workers use: the fastest that this CPU can run.
func ICRCVersion() string { return C.GoString(C.icrc_init()) }
