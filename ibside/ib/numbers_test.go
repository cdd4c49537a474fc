// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// numbers are all exported constants again, as the standards print them, so that a typing error would have to be made
// twice.
const numbers = `
	QP0 0  QP1 1  QPMulticast 0xffffff
	QKeyGSI 0x80010000  QKeyRDMAUDP 0x01234567  QKeyIPoIB 0x0b1b  PKeyDefault 0xffff
	LIDFirst 1  LIDLast 0xbfff  MLIDFirst 0xc000  MLIDLast 0xfffe  LIDPermissive 0xffff
	MTU256 1  MTU512 2  MTU1024 3  MTU2048 4  MTU4096 5

	LRHLen 8  LNHLocal 2  LNHGlobal 3  VLSubnetManagement 15
	GRHLen 40  BTHLen 12  DETHLen 8  ImmDtLen 4  ICRCLen 4  VCRCLen 2  MinLen 26  UDMaxLen 4174
	OpUDSendOnly 0x64  OpUDSendOnlyImm 0x65  OpCN 0x80  OpCNP 0x81

	ScopeLinkLocal 2  SrcPortFirst 0xc000

	MADLen 256  MADHdrLen 24  ClassSA 0x03  ClassCM 0x07  ClassSubnLID 0x01  ClassSubnDirected 0x81
	ClassVersionSA 2  ClassVersionCM 2
	MethodGet 0x01  MethodSet 0x02  MethodSend 0x03  MethodReport 0x06  MethodGetTable 0x12  MethodDelete 0x15
	MethodResponse 0x80  MethodGetResp 0x81  MethodReportResp 0x86  MethodTableResp 0x92  MethodDeleteResp 0x95

	SAHdrLen 32  SADataLen 200
	InformInfoLen 36  InformAllLIDs 0xffff  InformAllTypes 0xffff  InformAllProducers 0xffffff  ProducerSM 4
	TrapGIDInService 64  TrapGIDOutOfService 65  TrapGroupCreated 66  TrapGroupDeleted 67
	TrapLinkState 128  TrapCapability 144  NoticeLen 80  NoticeDataLen 54
	GUIDInfoRecordLen 72  GUIDsPerBlock 8  GUIDInfoLID 0x1  GUIDInfoBlock 0x2  GUIDInfoGUID0 0x10
	MADStatusBusy 1  MADStatusUnsupported 0x000c
	AttrClassPortInfo 0x0001  AttrNotice 0x0002  AttrInformInfo 0x0003  AttrPortInfoRecord 0x0012
	AttrServiceRecord 0x0031  ServiceRecordLen 176  ServiceNameLen 64  ServiceDataLen 64  ServiceRecordID 0x1  ServiceRecordGID 0x2
	ServiceRecordPKey 0x4  ServiceRecordLease 0x10  ServiceRecordKey 0x20  ServiceRecordName 0x40  ServiceRecordData 0x1fffffff80
	ServiceLeaseForever 0xffffffff  AttrGUIDInfoRecord 0x0030  PortInfoRecordLen 68  PortInfoLID 0x1  PortInfoPortNum 0x2  MaxLMC 7
	AttrPathRecord 0x0035  AttrMCMemberRecord 0x0038
	SAStatusOK 0  SAStatusNoResources 0x0100  SAStatusRequestInvalid 0x0200  SAStatusNoRecords 0x0300
	SAStatusTooManyRecords 0x0400  SAStatusInvalidGID 0x0500  SAStatusInsufficientFields 0x0600  SAStatusDenied 0x0700
	SelectGreater 0  SelectLess 1  SelectExactly 2  SelectBest 3
	RMPPFlagActive 1  RMPPFlagFirst 2  RMPPFlagLast 4  RMPPTypeData 1  RMPPTypeAck 2
	RMPPTypeStop 3  RMPPTypeAbort 4  RMPPVersion 1  RMPPStatusResources 1  RMPPStatusBadSegment 120

	MCMemberRecordLen 52
	MCMemberMGID 0x1  MCMemberPortGID 0x2  MCMemberQKey 0x4  MCMemberMLID 0x8  MCMemberMTUSelector 0x10  MCMemberMTU 0x20
	MCMemberTClass 0x40  MCMemberPKey 0x80  MCMemberRateSelector 0x100  MCMemberRate 0x200  MCMemberLifeSelector 0x400
	MCMemberLife 0x800  MCMemberSL 0x1000  MCMemberFlowLabel 0x2000  MCMemberHopLimit 0x4000  MCMemberScope 0x8000
	MCMemberJoinState 0x10000  MCMemberProxyJoin 0x20000  MCMemberJoin 0x10003  MCMemberCreate 0x130c7
	JoinFull 1  JoinNonMember 2  JoinSendOnly 4  JoinSendOnlyFull 8

	PathRecordLen 64
	PathServiceIDHigh 0x1  PathServiceIDLow 0x2  PathDGID 0x4  PathSGID 0x8  PathDLID 0x10  PathSLID 0x20
	PathRawTraffic 0x40  PathFlowLabel 0x100  PathHopLimit 0x200  PathTClass 0x400  PathReversible 0x800
	PathNumbPath 0x1000  PathPKey 0x2000  PathQoSClass 0x4000  PathSL 0x8000  PathMTUSelector 0x10000  PathMTU 0x20000
	PathRateSelector 0x40000  PathRate 0x80000  PathLifeSelector 0x100000  PathLife 0x200000  PathResolve 0x180c

	AttrSIDRReq 0x17  AttrSIDRRep 0x18  SIDRReqLen 232  SIDRRepLen 232  SIDRReqPrivateLen 216  SIDRRepPrivateLen 136
	SIDRAdditionalLen 72  SIDRStatusOK 0  SIDRStatusUnsupported 1  SIDRStatusRejected 2  SIDRStatusNoQP 3
	SIDRStatusRedirect 4  SIDRStatusVersion 5
	PortSpaceIPoIB 0x0002  PortSpaceTCP 0x0106  PortSpaceUDP 0x0111  PortSpaceIB 0x013f  CMAHdrLen 36

	ClassBridge 0x4b  ClassVersionBridge 1  OUIBridge 0x024357  AttrBridgeMessage 1  BridgeDataLen 216

	LinkTypeERF 197
`

func TestNumbers(t *testing.T) {
	scope := checkPackage(t)
	words := strings.Fields(numbers)
	listed := map[string]bool{}
	for i := 0; i+1 < len(words); i += 2 {
		name, want := words[i], words[i+1]
		listed[name] = true
		c, ok := scope.Lookup(name).(*types.Const)
		if !ok {
			t.Errorf("%s is no constant", name)
			continue
		}
		tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, want)
		if err != nil {
			t.Fatal(err)
		}
		if c.Val().ExactString() != tv.Value.ExactString() {
			t.Errorf("%s is %s, want %s", name, c.Val(), want)
		}
	}
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if ok && ast.IsExported(name) && !strings.HasPrefix(name, "Fault") && !listed[name] {
			t.Errorf("%s = %s is not in the list", name, c.Val())
		}
	}
}

// checkPackage type-checks this folder's sources, tests aside, and returns what they declare.
func checkPackage(t *testing.T) *types.Scope {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(goroot)) // a test that is built with -trimpath does not know it
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("causeway/ibside/ib", fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg.Scope()
}
