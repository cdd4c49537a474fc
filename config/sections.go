// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math/bits"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/ibside/ib"
)

// rdmaDevice matches the names of RDMA devices that the kernel allows and that are file names.
var rdmaDevice = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

// ib reads the InfiniBand side.
func (p *parser) ib(t *table) {
	p.cfg.IB = IB{Port: readIBPort(t), PKey: t.pkey("pkey"), HostGIDs: t.prefixes("host_gids", "fe80::2:c903:0:100/120"),
		AliasGIDs: t.truth("alias_gids"), Direct: t.truth("direct")}
	p.cfg.IB.Learn, p.cfg.IB.NodeIdle = t.text("nodes") == "learn", time.Duration(t.number("node_idle"))*time.Second
	p.cfg.IB.IPoIB = readInterface(t)
	namePort(t, &p.cfg.IB)
	if t.has("gid") {
		p.cfg.IB.GID = readGID(t, `gid = "fe80::2:c903:0:1"`)
	}
	if !p.cfg.IB.Port.Fabric {
		return
	}
	if p.cfg.IB.Learn {
		t.fail("nodes", `nodes "learn" is for ports of a device: the software fabric's nodes have no IPoIB to learn their addresses from; `+
			`write a [[host]] for each, and remove it`)
	}
	for _, name := range []string{"gid", "host_gids", "alias_gids", "ipoib"} {
		if t.has(name) {
			t.fail(name, "%s is for ports of a device; the software fabric has one GID, and no IPoIB; remove it", name)
		}
	}
}

// readInterface reads ib.ipoib.
func readInterface(t *table) string {
	const longest = 15 // IFNAMSIZ without the terminating zero
	s, given := t.given("ipoib")
	if given && (s == "" || len(s) > longest || strings.ContainsAny(s, "/ \t\n:")) {
		t.fail("ipoib", `ipoib %s is not the name of an interface; write one like "ib0"`, show(s))
		return ""
	}
	return s
}

// readIBPort reads ib.port.
func readIBPort(t *table) IBPort {
	s, given := t.given("port")
	if file, ok := strings.CutPrefix(s, "fabric:"); ok {
		return IBPort{Fabric: true, File: file}
	}
	if !given {
		return IBPort{}
	}
	device, num, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(num, 10, 8)
	switch {
	case s == "fabric":
		t.fail("port", `port "fabric" lacks its colon; write "fabric:" or "fabric:FILE"`)
	case rdmaDevice.MatchString(s):
		t.fail("port", `port %q names no port of the device; write "%s:1"`, s, s)
	case err != nil || n == 0 || n == 255 || !rdmaDevice.MatchString(device):
		t.fail("port", `port %s is not an InfiniBand port; write "mlx5_0:1", "fabric:" or "fabric:FILE"`, show(s))
	default:
		return IBPort{Device: device, Num: uint8(n)}
	}
	return IBPort{}
}

// pkey returns a P_Key. 0x8000 is the membership bit without a partition (IBTA vol 1 §10.9.1.1).
func (t *table) pkey(name string) ib.PKey {
	k := ib.PKey(t.number(name))
	if k != 0 && !k.Valid() {
		t.fail(name, "%s %v is no partition; use 0x8001 to 0xffff, or 0x0001 to 0x7fff for a limited member", name, k)
		return ib.PKeyDefault
	}
	return k
}

// workers reads the cores and sizes of the datapath.
func (p *parser) workers(t *table) {
	n := func(name string) int { return int(t.number(name)) }
	p.cfg.Workers = Workers{
		LCores: readLCores(t), Idle: Idle(t.text("idle")), MemoryMiB: n("memory_mib"),
		RxDescs: t.powerOfTwo("rx_descs"), TxDescs: t.powerOfTwo("tx_descs"), Mbufs: n("mbufs"),
		ProxyQPs: n("proxy_qps"), ProxyQPsPerHost: n("proxy_qps_per_host"), Hosts: n("hosts"), Nodes: n("nodes"), Groups: n("groups"),
		ProxyQPDepth: t.powerOfTwo("proxy_qp_depth"), ProxyQPIdle: time.Duration(t.number("proxy_qp_idle")) * time.Second,
		ProxyQPRate: n("proxy_qp_rate"), ProxyQPRatePerHost: n("proxy_qp_rate_per_host"), ProxyQPsUnconfirmed: n("proxy_qps_unconfirmed"),
		RecvBuffers: n("recv_buffers"), PGMStreams: n("pgm_streams"), PGMIdle: time.Duration(t.number("pgm_idle")) * time.Second,
	}
	p.cfg.Workers.Management = readManagement(t, p.cfg.Workers.LCores)
	if w := &p.cfg.Workers; !t.has("proxy_qps_per_host") {
		w.ProxyQPsPerHost = min(w.ProxyQPsPerHost, w.ProxyQPs)
	}
	if w := &p.cfg.Workers; !t.has("proxy_qp_rate") {
		w.ProxyQPRate = w.ProxyQPs
	}
	if w := &p.cfg.Workers; !t.has("proxy_qp_rate_per_host") {
		w.ProxyQPRatePerHost = w.ProxyQPsPerHost
	}
	if p.cfg.Workers.RxDescs == 0 { // the file does not say, or is wrong there
		p.cfg.Workers.RxDescs = defaultRxDescs(p.cfg.RoCE.Port)
	}
	if p.cfg.Workers.Mbufs == 0 { // likewise
		p.cfg.Workers.Mbufs = defaultMbufs(p.cfg)
	}
}

// readLCores reads the workers' cores.
func readLCores(t *table) []int {
	list := t.numbers("lcores")
	if t.isEmptyList("lcores") {
		t.fail("lcores", "lcores is empty; name at least one core: lcores = [1]")
	}
	for i, n := range list {
		if slices.Contains(list[:i], n) {
			t.fail("lcores", "lcores names %d twice; a core has one worker", n)
			break
		}
	}
	return list
}

// readManagement reads management's core.
func readManagement(t *table, workers []int) *int {
	if !t.has("management") {
		return nil
	}
	cpu := int(t.number("management"))
	if slices.Contains(workers, cpu) {
		t.fail("management", "management %d is also one of lcores, where a worker runs; name another core, or remove it", cpu)
	}
	return &cpu
}

// powerOfTwo returns a number of descriptors; drivers round other numbers up or reject them.
func (t *table) powerOfTwo(name string) int {
	n := int(t.number(name))
	if n&(n-1) != 0 {
		low := 1 << (bits.Len(uint(n)) - 1)
		t.fail(name, "%s %d is not a power of two; use %d or %d", name, n, low, 2*low)
	}
	return n
}

// policy reads which sources may send across.
func (p *parser) policy(t *table) {
	p.cfg.Policy = Policy{Allow: t.prefixes("allow", "10.9.0.0/24"), BridgeUnknown: t.text("unknown_source") == "bridge"}
}

// prefixes reads a list of prefixes of host addresses.
func (t *table) prefixes(key, example string) (list []netip.Prefix) {
	for i, s := range t.elements(key) {
		n, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			t.failAt(key, i, "%s %s is not a prefix; write one like %q", key, show(s), example)
		case n.Addr().Is4In6():
			t.failAt(key, i, "%s %s is of IPv4 in IPv6 form; write one like \"10.9.0.0/24\"", key, s)
		case n.Addr().IsMulticast() && n.Bits() > 0:
			t.failAt(key, i, "%s %s is multicast; sources are hosts, and groups have their own [[group]]", key, s)
		case n != n.Masked():
			t.failAt(key, i, "%s %s has bits set after its prefix; write %q", key, s, n.Masked().String())
		case slices.Contains(list, n):
			t.failAt(key, i, "%s %s is there twice; remove one", key, s)
		default:
			list = append(list, n)
		}
	}
	return list
}

// qos reads the traffic classes: the default chain with the mappings of the file.
func (p *parser) qos(t *table) {
	q := &p.cfg.QoS
	for i := range q.SLOfDSCP {
		q.SLOfDSCP[i] = ib.SL(i >> 3)
	}
	for i := range q.DSCPOfSL {
		q.DSCPOfSL[i] = uint8(i&7) << 3
		q.PCPOfSL[i] = uint8(i & 7)
	}
	t.mapping("dscp_to_sl", func(from, to int) { q.SLOfDSCP[from] = ib.SL(to) })
	t.mapping("sl_to_dscp", func(from, to int) { q.DSCPOfSL[from] = uint8(to) })
	t.mapping("sl_to_pcp", func(from, to int) { q.PCPOfSL[from] = uint8(to) })
}

// metrics reads the address of the metrics endpoint.
func (p *parser) metrics(t *table) {
	p.cfg.Metrics.Pprof, p.cfg.Metrics.Insecure = t.truth("pprof"), t.truth("insecure")
	s := t.text("listen")
	if s == "" {
		return
	}
	a, ok := tcpListen(s)
	if !ok {
		t.fail("listen", `listen %s is not an address and port; write one like "127.0.0.1:9432" or "[::1]:9432"`, show(s))
		return
	}
	p.cfg.Metrics.Listen = a
	if m := p.cfg.Metrics; m.Pprof && !m.Insecure && !a.isLoopback() {
		t.fail("pprof", "pprof would serve the program's memory to everybody who reaches %q; listen on 127.0.0.1, or write insecure = true", a.Address)
	}
}

// isLoopback reports whether only this machine can connect.
func (l Listen) isLoopback() bool {
	return l.Network == "unix" || netip.MustParseAddrPort(l.Address).Addr().IsLoopback()
}

// console reads the addresses of the console.
func (p *parser) console(t *table) {
	for i, s := range t.elements("listen") {
		a, ok := tcpListen(s)
		if path, isUnix := strings.CutPrefix(s, "unix:"); isUnix {
			// sun_path has 108 bytes with the terminating zero (unix(7)).
			a, ok = Listen{"unix", path}, strings.HasPrefix(path, "/") && len(path) < 108
		}
		switch {
		case !ok && strings.HasPrefix(s, "unix:"):
			t.failAt("listen", i, `listen %s is not the path of a socket: it begins with / and has at most 107 bytes, `+
				`like "unix:/run/causeway/console.sock"`, show(s))
		case !ok:
			t.failAt("listen", i, `listen %s is not an address; write one like "unix:/run/causeway/console.sock" or "127.0.0.1:4711"`,
				show(s))
		case slices.Contains(p.cfg.Console.Listen, a) || a == p.cfg.Metrics.Listen:
			t.failAt("listen", i, "listen %s is there twice, here or in [metrics]; use another", show(s))
		default:
			p.cfg.Console.Listen = append(p.cfg.Console.Listen, a)
		}
	}
	p.token(t)
}

// leastToken is the least length of a token in bytes, so that it cannot be guessed.
const leastToken = 16

// token reads the console's token, which is required when other machines can connect.
func (p *parser) token(t *table) {
	token, ok := t.given("token")
	switch {
	case ok && len(token) < leastToken:
		t.fail("token", "token has %d bytes, which can be guessed; use %d or more: openssl rand -hex 16 makes one", len(token), leastToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		t.fail("token", "token has a blank or a character that a terminal may not send; use letters, digits and signs of ASCII")
	}
	p.cfg.Console.Token = token
	for i, a := range p.cfg.Console.Listen {
		if token == "" && !a.isLoopback() {
			t.failAt("listen", i, "listen %q can be reached by other machines; set a token, or use 127.0.0.1", a.Address)
		}
	}
}

// tcpListen reads ADDRESS:PORT. It rejects host names, which could resolve to another address later. An IPv4 address
// listens on IPv4 only: with the network "tcp", 0.0.0.0 would listen on all IPv6 addresses, too.
func tcpListen(s string) (Listen, bool) {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 || a.Addr().IsMulticast() {
		return Listen{}, false
	}
	if a.Addr().Unmap().Is4() {
		return Listen{"tcp4", netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()}, true
	}
	return Listen{"tcp", a.String()}, true
}

func (p *parser) log(t *table) {
	p.cfg.Log = Log{Level: t.text("level"), Format: t.text("format")}
}

// readService reads one [[service]]; without ports when it is wrong.
func readService(t *table) Service {
	s := readServicePorts(t)
	s.Scope = readScope(t)
	return s
}

func readServicePorts(t *table) Service {
	switch {
	case t.has("port") && t.has("ports"):
		t.fail("ports", "port and ports are both there; write one of them")
	case t.has("ports"):
		return readPorts(t)
	case t.has("port"):
		port := uint16(t.number("port"))
		return Service{First: port, Last: port}
	default:
		t.fail("port", `port is missing; write port = 7174, or ports = "7000-7100"`)
	}
	return Service{}
}

// readPorts reads a range of ports.
func readPorts(t *table) Service {
	s, ok := t.given("ports")
	if !ok {
		return Service{}
	}
	low, high, _ := strings.Cut(s, "-")
	first, bad := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
	last, worse := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
	switch {
	case bad != nil || worse != nil || first == 0 || last == 0:
		t.fail("ports", `ports %s is not a range within 1 to 65535; write one like "7000-7100"`, show(s))
	case first > last:
		t.fail("ports", `ports %q begins with the higher end; write "%d-%d"`, s, last, first)
	default:
		return Service{First: uint16(first), Last: uint16(last)}
	}
	return Service{}
}
