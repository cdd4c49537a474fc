// SPDX-License-Identifier: Apache-2.0

package lcore

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/..
*/
import "C"
