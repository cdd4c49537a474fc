// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"causeway/config/nesting"
	"causeway/ibside/ib"
)

// topology is the file:
//
//	[fabric]
//	prefix  = "fe80::"            # subnet prefix
//	mtu     = 4096                # bytes
//	pkeys   = [0xffff]
//	socket  = "/run/demo.sock"    # other processes attach here
//	capture = "demo.pcap"
//
//	[[node]]
//	name   = "sensor"
//	guid   = "0x0002c90300000007" # or a number
//	ip     = "10.9.0.7"
//	role   = "publish"            # echo | publish | listen | none
//	groups = [{ip = "239.1.2.3", mgid = "rdmacm", qkey = 0x01234567}]
//	rate   = 1000                 # publish: messages a second
//	size   = 256                  # publish: bytes
//	count  = 0                    # publish: 0 = unlimited
type topology struct {
	Fabric struct {
		Prefix  string
		MTU     int
		PKeys   []uint16
		Socket  string
		Capture string
	}
	Node []topologyNode
}

type topologyNode struct {
	Name   string
	GUID   any
	IP     string
	QPN    uint32
	QKey   uint32
	Role   string
	Groups []topologyGroup
	Rate   int
	Size   int
	Count  uint64
}

type topologyGroup struct {
	IP   string
	MGID string
	QKey uint32
}

// Load reads a topology file. "" is the empty topology: a subnet without nodes.
func Load(path string) (Config, error) {
	if path == "" {
		return Config{}, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("fabric: %s: %w; write it, or use \"fabric:\" for a subnet without nodes", path, fs.ErrNotExist)
	}
	if err != nil {
		return Config{}, fmt.Errorf("fabric: topology: %w", err)
	}
	return parseTopology(path, string(b))
}

func parseTopology(path, text string) (Config, error) {
	var t topology
	meta, err := nesting.Decode(text, &t)
	if err != nil {
		return Config{}, tomlError(path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		k := unknown[0]
		return Config{}, fmt.Errorf("%s:%d: key %q is not known; use %s", path, lineOf(text, k[0], -1, k[len(k)-1]), k, knownKeys(k))
	}
	at := func(table string, index int, key string, err error) error {
		return fmt.Errorf("%s:%d: %s: %w", path, lineOf(text, table, index, key), key, err)
	}
	c, key, err := t.config()
	if err != nil {
		return Config{}, at("fabric", -1, key, err)
	}
	for i := range t.Node {
		n, key, err := t.Node[i].config(c.PKeys[0])
		if err == nil && slices.ContainsFunc(c.Nodes, func(o NodeConfig) bool { return o.Name == n.Name }) {
			key, err = "name", fmt.Errorf("there is another node %q", n.Name)
		}
		if err != nil {
			return Config{}, at("node", i, key, err)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c, nil
}

// tomlError puts file and line first. The error of a value of the wrong type has its line only in the text: toml: line
// 3 (last key "a.b"): ...
func tomlError(path string, err error) error {
	var wrong toml.ParseError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s:%d: this is not TOML", path, wrong.Position.Line) // and may be any file: nothing is told of it
	}
	var line int
	if _, scanErr := fmt.Sscanf(err.Error(), "toml: line %d", &line); scanErr != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, text, _ := strings.Cut(err.Error(), "): ")
	return fmt.Errorf("%s:%d: %s", path, line, text)
}

func knownKeys(k toml.Key) string {
	switch {
	case len(k) > 2:
		return "ip, mgid, qkey"
	case len(k) == 2 && k[0] == "fabric":
		return "prefix, mtu, pkeys, socket, capture"
	case len(k) == 2 && k[0] == "node":
		return "name, guid, ip, qpn, qkey, role, groups, rate, size, count"
	}
	return "[fabric] and [[node]]"
}

// lineOf returns the line of a key in the index-th table with that name (-1: any of them), for messages. It returns the
// table's line when the key is missing, and 1 when the table is.
func lineOf(text, table string, index int, key string) int {
	line, in, seen := 1, "", -1
	for i, l := range strings.Split(text, "\n") {
		l, _, _ = strings.Cut(l, "#")
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "[") {
			in = strings.TrimSpace(strings.Trim(l, "[] "))
			if in == table {
				if seen++; index < 0 || seen == index {
					line = i + 1
				}
			}
		}
		here := in == table || strings.HasPrefix(in, table+".")
		if (here && (index < 0 || seen == index) || table == key) && assigns(l, key) {
			return i + 1
		}
	}
	return line
}

// assigns reports whether a line has "key =".
func assigns(line, key string) bool {
	for {
		at := strings.Index(line, key)
		if at < 0 {
			return false
		}
		rest := strings.TrimLeft(line[at+len(key):], " \t\"'")
		if (at == 0 || strings.ContainsRune(" \t{,\"'", rune(line[at-1]))) && strings.HasPrefix(rest, "=") {
			return true
		}
		line = line[at+len(key):]
	}
}

// config converts the [fabric] table. With an error it returns the key.
func (t *topology) config() (Config, string, error) {
	c := Config{Socket: t.Fabric.Socket, CaptureFile: t.Fabric.Capture}
	if p := t.Fabric.Prefix; p != "" {
		gid, err := ib.ParseGID(strings.TrimSuffix(p, "/64"))
		if err != nil || gid.GUID() != 0 || gid.IsIBMulticast() || gid.IsZero() {
			return c, "prefix", fmt.Errorf("%q is not a subnet prefix; write it like %q", p, "fe80::")
		}
		c.Prefix = gid.Prefix()
	}
	if t.Fabric.MTU != 0 {
		var ok bool
		if c.MTU, ok = ib.MTUFromBytes(t.Fabric.MTU); !ok {
			return c, "mtu", fmt.Errorf("%d; use 256, 512, 1024, 2048 or 4096", t.Fabric.MTU)
		}
	}
	for _, k := range t.Fabric.PKeys {
		c.PKeys = append(c.PKeys, ib.PKey(k))
	}
	if err := c.setDefaults(); err != nil {
		return c, "pkeys", errors.New(strings.TrimPrefix(err.Error(), "fabric: "))
	}
	return c, "", nil
}

// config converts a node. pkey is part of the MGIDs of its groups.
func (t *topologyNode) config(pkey ib.PKey) (NodeConfig, string, error) {
	n := NodeConfig{
		Name: t.Name, QPN: ib.QPN(t.QPN), QKey: ib.QKey(t.QKey), Role: Role(t.Role), RatePPS: t.Rate, Size: t.Size,
		Count: t.Count,
	}
	if t.Name == "" || len(t.Name) > MaxName || !printable(t.Name) {
		return n, "name", fmt.Errorf("%q; give the node a name of 1 to %d letters", t.Name, MaxName)
	}
	var err error
	if n.GUID, err = parseGUID(t.GUID); err != nil {
		return n, "guid", err
	}
	if t.IP != "" {
		if n.IP, err = netip.ParseAddr(t.IP); err != nil {
			return n, "ip", fmt.Errorf("%q is not an IP address", t.IP)
		}
	}
	for _, g := range t.Groups {
		group, err := g.config(pkey)
		if err != nil {
			return n, "groups", err
		}
		n.Groups = append(n.Groups, group)
	}
	if err := n.setDefaults(); err != nil {
		return n, "role", errors.New(strings.TrimPrefix(err.Error(), "fabric: "))
	}
	return n, "", nil
}

func parseGUID(v any) (ib.GUID, error) {
	switch v := v.(type) {
	case int64:
		if v > 0 {
			return ib.GUID(v), nil
		}
	case string:
		digits := strings.NewReplacer(":", "", "0x", "").Replace(v)
		if n, err := strconv.ParseUint(digits, 16, 64); err == nil && n != 0 {
			return ib.GUID(n), nil
		}
	}
	return 0, fmt.Errorf("%v is not a port GUID; write it like %q", v, "0x0002c90300000007")
}

// config converts a group. The MGID is a literal one, or derived from the IP group as rdma_cm or IPoIB do.
func (t *topologyGroup) config(pkey ib.PKey) (GroupConfig, error) {
	g := GroupConfig{QKey: ib.QKey(t.QKey)}
	ip, ipErr := netip.ParseAddr(t.IP)
	if t.IP != "" && (ipErr != nil || !ip.IsMulticast()) {
		return g, fmt.Errorf("ip %q is not a multicast address", t.IP)
	}
	otherwise := ib.QKeyRDMAUDP
	switch t.MGID {
	case "", "rdmacm":
		g.MGID = ib.MGIDRDMACM(ip, pkey, ib.ScopeLinkLocal)
	case "ipoib":
		g.MGID, otherwise = ib.MGIDIPoIB(ip, pkey, ib.ScopeLinkLocal), ib.QKeyIPoIB
	default:
		g.MGID, _ = ib.ParseGID(t.MGID)
	}
	if !g.MGID.IsIBMulticast() {
		return g, fmt.Errorf("group %q: mgid %q: use rdmacm or ipoib with an ip, or a literal MGID", t.IP, t.MGID)
	}
	if g.QKey == 0 {
		g.QKey = otherwise
	}
	return g, nil
}
