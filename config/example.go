// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// A sample is one table of the example: a remark, and the keys that are set.
type sample struct {
	table string
	note  string
	set   []field
}

// samples are the tables of the annotated example. The first of each name shows all its keys.
var samples = []sample{
	{"bridge", "", []field{{"name", `"causeway-1"`}}},
	{"roce", "", []field{{"port", `"af_packet:eth1"`}, {"addresses", `["10.9.0.254/24", "fd09::fe/64"]`}, {"mtu", "4200"}, {"querier", "true"}}},
	{"ib", "", []field{{"port", `"fabric:"`}, {"pkey", "0xffff"}}},
	{"fabrics", "", nil},
	{"workers", "", []field{{"lcores", "[1]"}, {"memory_mib", "512"}}},
	{"host", "An InfiniBand node.", []field{
		{"ip", `"10.9.0.7"`}, {"ip6", `"fd09::7"`}, {"side", `"ib"`}, {"gid", `"fe80::2:c903:0:7"`}}},
	{"host", "RoCE hosts are learned. An entry such as this one is never overwritten.", []field{
		{"ip", `"10.9.0.1"`}, {"side", `"roce"`}, {"mac", `"02:00:00:00:00:01"`}}},
	{"group", "What mckey -m 239.1.2.3 joins on either side.", []field{{"ip", `"239.1.2.3"`}, {"rate", `"1M pps"`}}},
	{"group", "A site-local group whose MGID holds the UDP port of its applications: ff15:a01b::1267:ef01:204.", []field{
		{"ip", `"239.1.2.4"`}, {"mgid", `"port"`}, {"port", "4711"}, {"direction", `"to-ib"`}}},
	{"range", "", []field{{"ip", `"239.2.0.0/16"`}, {"from", `["reports", "sa"]`}}},
	{"service", "Such as udaddy's.", []field{{"port", "7174"}}},
	{"service", "Several of them.", []field{{"ports", `"7000-7100"`}}},
	{"translate", "Hosts of another subnet than the one above.", []field{{"roce", `"10.9.1.0/24"`}, {"ib", `"10.10.1.0/24"`}}},
	{"policy", "", []field{{"allow", `["10.9.0.0/24", "fd09::/64"]`}}},
	{"qos", "", []field{{"dscp_to_sl", "{ 46 = 5 }"}}},
	{"metrics", "", []field{{"listen", `"127.0.0.1:9432"`}}},
	{"console", "", []field{{"listen", `["unix:/run/causeway/console.sock", "127.0.0.1:4711"]`}}},
	{"log", "", []field{{"level", `"info"`}}},
}

// fewSamples are the tables of the short example.
var fewSamples = []sample{
	{"roce", "", []field{{"port", `"af_packet:eth1"`}, {"addresses", `["10.9.0.254/24"]`}, {"mtu", "4200"}}},
	{"ib", "", []field{{"port", `"mlx5_0:1"`}}},
	{"host", "", []field{{"ip", `"10.9.0.7"`}, {"side", `"ib"`}, {"gid", `"fe80::2:c903:0:7"`}}},
	{"group", "", []field{{"ip", `"239.1.2.3"`}}},
	{"policy", "", []field{{"allow", `["10.9.0.0/24"]`}}},
}

// Example returns a configuration with every key, its meaning, its default, and whether a running bridge takes another
// value. docs/example.toml is this text; a test compares them.
func Example() string {
	var b strings.Builder
	b.WriteString(`# A Causeway configuration with every key. A key that is commented out shows its default, or a value
# that it could have. "causeway check FILE" checks a file; "causeway example" prints this one.
# Made from config/keys.go by "go test ./config -run TestExampleFile -update"; do not edit.
`)
	for i, s := range samples {
		switch s.table {
		case "fabrics":
			offSample(&b, tableNamed(morePorts))
		case "metrics":
			offSample(&b, &fleetDoc)
		}
		first := !slices.ContainsFunc(samples[:i], func(o sample) bool { return o.table == s.table })
		s.write(&b, first)
	}
	return b.String()
}

// offSample writes a table whose header is commented out, too, with the examples of its keys.
func offSample(b *strings.Builder, t *tableDoc) {
	b.WriteString("\n")
	comment(b, t.meaning)
	fmt.Fprintf(b, "#   %s\n", t.header())
	for _, k := range t.keys {
		fmt.Fprintf(b, "#   %s = %s\n", k.name, k.example)
	}
}

// ShortExample returns a minimal configuration.
func ShortExample() string {
	var b strings.Builder
	b.WriteString("# A small Causeway configuration, to begin with. \"causeway example\" shows every key there is.\n")
	for _, s := range fewSamples {
		t := tableNamed(s.table)
		fmt.Fprintf(&b, "\n# %s\n%s\n", firstSentence(t.meaning), t.header())
		for _, f := range s.set {
			fmt.Fprintf(&b, "# %s\n%s = %s\n", firstSentence(findKey(s.table, f.key).meaning), f.key, f.value)
		}
	}
	return b.String()
}

// write writes a table; with all, also the keys that are not set, and the meaning of each key.
func (s *sample) write(b *strings.Builder, all bool) {
	t := tableNamed(s.table)
	b.WriteString("\n")
	if all {
		comment(b, t.meaning)
	}
	if s.note != "" {
		comment(b, s.note)
	}
	b.WriteString(t.header() + "\n")
	for i := range t.keys {
		s.writeKey(b, &t.keys[i], all)
	}
}

func (s *sample) writeKey(b *strings.Builder, k *key, all bool) {
	at := slices.IndexFunc(s.set, func(f field) bool { return f.key == k.name })
	switch {
	case !all && at < 0:
		return
	case !all:
		fmt.Fprintf(b, "%s = %s\n", k.name, s.set[at].value)
		return
	}
	def := k.plainDefault()
	if k.need {
		def = "none, it is needed"
	}
	b.WriteString("\n")
	comment(b, k.meaning)
	comment(b, fmt.Sprintf("Value: %s. Default: %s. While running: %s.", k.typeText(), def, k.whileRunning()))
	switch {
	case at >= 0:
		fmt.Fprintf(b, "%s = %s\n", k.name, s.set[at].value)
	case k.def != nil:
		fmt.Fprintf(b, "# %s = %s\n", k.name, k.plainDefault())
	default:
		fmt.Fprintf(b, "# %s = %s\n", k.name, k.example)
	}
}

// commentWidth is the longest line of a comment in bytes.
const commentWidth = 100

// comment writes a text as comments.
func comment(b *strings.Builder, text string) {
	line := "#"
	for _, word := range strings.Fields(strings.ReplaceAll(text, "`", "")) {
		if len(line)+1+len(word) > commentWidth {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// firstSentence returns the first sentence of a meaning, or the text before its colon.
func firstSentence(text string) string {
	for i := range text {
		if (text[i] == '.' || text[i] == ':') && (i+1 == len(text) || text[i+1] == ' ') {
			return strings.ReplaceAll(text[:i], "`", "") + "."
		}
	}
	return text
}

// whileRunning says in the documents whether a running bridge takes another value.
func (k *key) whileRunning() string {
	if k.live {
		return "yes"
	}
	return "no"
}

// typeText describes the allowed values.
func (k *key) typeText() string {
	switch {
	case len(k.words) > 0 && k.kind == texts:
		return "list of " + enumerate(k.words, "or")
	case len(k.words) > 0:
		return enumerate(k.words, "or")
	case k.kind == number:
		return k.bounds()
	case k.kind == numbers:
		return "list of " + k.bounds()
	case k.kind == mapping:
		return fmt.Sprintf("table, 0 to %d = %s", k.keyHi, k.bounds())
	}
	return strings.TrimPrefix(k.kind.String(), "a ")
}
