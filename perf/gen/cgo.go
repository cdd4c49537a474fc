// SPDX-License-Identifier: Apache-2.0

package gen

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O3 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/../..
*/
import "C"
