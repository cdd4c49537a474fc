// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"causeway/config"
	"causeway/config/nesting"
)

// maxFile is the largest file in bytes, so that a wrong path does not exhaust memory.
const maxFile = 1 << 20

// file is the configuration as it is written.
type file struct {
	Name     string
	Data     string
	Insecure bool
	Clients  struct {
		Listen, Advertise []string
		tlsFiles
	}
	Peers struct {
		Listen []string
		tlsFiles
	}
	Member  []member
	Metrics struct{ Listen string }
	Raft    struct{ Heartbeat, Election string }
	Store   struct {
		Quota   int64 `toml:"quota_mib"`
		Compact string
	}
	Log struct{ Level, Format string }
}

// A member is a voter as the file names it.
type member struct{ Name, Peer string }

// tlsFiles are the paths of a certificate, its key, and the authority of those on the other side.
type tlsFiles struct{ Cert, Key, CA string }

// settings are the configuration after it was checked.
type settings struct {
	file
	clientListen, clientAdvertise []url.URL
	peerListen, peerAdvertise     []url.URL
	metricsListen                 []url.URL
	heartbeat, election, compact  time.Duration
}

// load reads and checks a file. An error is one line.
func load(path string) (*settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// unreadable says why a file cannot be read, and what to do.
func unreadable(path string, err error) error {
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no such file; write it, or name another", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this user may not read it; use sudo, or change its permissions", path)
	case errors.Is(err, unix.EISDIR):
		return fmt.Errorf("%s: this is a folder; name a file", path)
	case errors.As(err, &cause):
		return fmt.Errorf("%s: %w", path, cause.Err)
	}
	return err
}

// parse turns a file's text into settings.
func parse(data []byte) (*settings, error) {
	c := &settings{}
	c.Data = "/var/lib/causeway-etcd"
	c.Clients.Listen = []string{"http://127.0.0.1:2379"}
	c.Raft.Heartbeat, c.Raft.Election = "50ms", "250ms"
	c.Store.Quota, c.Store.Compact = 256, "1h"
	c.Log.Level, c.Log.Format = "info", "text"
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many for a configuration; the limit is %d", len(data), maxFile)
	}
	found, err := nesting.Decode(string(data), &c.file)
	if err != nil {
		return nil, syntax(err)
	}
	if unknown := found.Undecoded(); len(unknown) > 0 {
		return nil, unknownKey(unknown[0], strings.HasSuffix(found.Type(unknown[0]...), "Hash"))
	}
	return c, c.check()
}

// badType matches the TOML library's error for a value of another type than the key's.
var badType = regexp.MustCompile(`^toml: line (\d+) \(last key "([^"]*)"\): incompatible types: TOML value has type (\S+); destination has type (\S+)$`)

// wanted names the types of keys.
var wanted = map[string]string{"string": "a string, in quotes", "slice": "a list, in brackets", "boolean": "true or false", "integer": "a whole number"}

// syntax rewords an error of the TOML library.
func syntax(err error) error {
	var at toml.ParseError
	if errors.As(err, &at) {
		return fmt.Errorf("line %d: this is not TOML: %s", at.Position.Line, oneLine(at.Message))
	}
	if m := badType.FindStringSubmatch(err.Error()); m != nil && wanted[m[4]] != "" {
		return fmt.Errorf("line %s: %s is of type %s; write %s", m[1], m[2], m[3], wanted[m[4]])
	}
	return fmt.Errorf("%s; see causeway-etcd -help for the keys", oneLine(strings.TrimPrefix(err.Error(), "toml: ")))
}

// oneLine replaces characters that are not printable by question marks.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// logOf returns how to log.
func (c *settings) logOf() config.Log { return config.Log{Level: c.Log.Level, Format: c.Log.Format} }

// initial returns all voters in the form of etcd: name=URL,name=URL.
func (c *settings) initial() string {
	var all []string
	for _, m := range c.Member {
		all = append(all, m.Name+"="+m.Peer)
	}
	return strings.Join(all, ",")
}
