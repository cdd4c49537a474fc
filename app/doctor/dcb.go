// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Messages of data centre bridging (linux/dcbnl.h, linux/rtnetlink.h).
const (
	rtmGetDCB      = 78
	dcbIEEEGet     = 21 // struct dcbmsg, cmd
	dcbAttrIfname  = 1
	dcbAttrIEEE    = 13
	dcbAttrIEEEPFC = 2
	dcbMsgLen      = 4 // struct dcbmsg: family, command, padding
	pfcEnabled     = 1 // struct ieee_pfc, pfc_en: its offset
	nlaTypeMask    = 0x3fff
)

// askPFC asks an interface's driver which priorities have flow control (IEEE 802.1Qbb).
func askPFC(netdev string) (uint8, error) {
	req := nl.NewNetlinkRequest(rtmGetDCB, 0)
	req.AddRawData([]byte{unix.AF_UNSPEC, dcbIEEEGet, 0, 0})
	req.AddData(nl.NewRtAttr(dcbAttrIfname, nl.ZeroTerminated(netdev)))
	answers, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		if pfc, ok := enabledIn(a); ok {
			return pfc, nil
		}
	}
	return 0, errors.New("its driver does not tell")
}

// enabledIn looks for the enabled priorities in an answer.
func enabledIn(answer []byte) (uint8, bool) {
	if len(answer) < dcbMsgLen {
		return 0, false
	}
	pfc := attribute(attribute(answer[dcbMsgLen:], dcbAttrIEEE), dcbAttrIEEEPFC)
	if len(pfc) <= pfcEnabled {
		return 0, false
	}
	return pfc[pfcEnabled], true
}

// attribute returns what an attribute of a type holds; nil if there is none.
func attribute(attrs []byte, kind uint16) []byte {
	list, err := nl.ParseRouteAttr(attrs)
	if err != nil {
		return nil
	}
	for _, a := range list {
		if a.Attr.Type&nlaTypeMask == kind {
			return a.Value
		}
	}
	return nil
}
