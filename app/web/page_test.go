// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"causeway/app/command"
	"causeway/app/command/commandtest"
	"causeway/config"
	"causeway/ibside/multipath"
	"causeway/lcore"
)

// pageOf returns the page of a fake bridge.
func pageOf(t *testing.T, b Source, o Options) string {
	t.Helper()
	w := httptest.NewRecorder()
	handler(b, o).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; ") || strings.Contains(got, "unsafe") || w.Code != 200 {
		t.Errorf("%d, policy %q", w.Code, got)
	}
	return w.Body.String()
}

// TestPageAsText reads the page as a browser without styles and scripts shows it.
func TestPageAsText(t *testing.T) {
	b := newFake()
	b.ready = false
	text := pageOf(t, b, options())
	text = text[strings.Index(text, "<body>"):]
	text = regexp.MustCompile(`\s+`).ReplaceAllString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, " "), " ")
	at := 0
	for _, want := range []string{
		"not ready", "Missing for readiness: 1", "group 239.1.2.4, MGID ::: joining", "node 10.9.0.7", "RoCE 2 hosts", "link up", "received 0 /s", "5 proxy QPs", "4 groups",
		"InfiniBand 3 nodes", "Packets/s", "Payload, bit/s", "Drops/s", "Packets since the start direction received sent dropped roce_to_ib", "Drops by reason",
		"Lost outside of the workers", "lost messages of ib_to_roce: no_qp 52, port_full 51", "Ethernet ports port link", "af_packet:eth2", "down",
		"InfiniBand ports port state", "mlx5_1:1", "Segments segment", "untagged", "Groups group state to IB", "239.1.2.3", "Time in the bridge", "p99",
		"Workers", "RoCE hosts address state", "10.9.0.1", "and 10 more: causeway ctl show hosts", "InfiniBand nodes", "Last events", "group_rejected", "ready", "/status.json",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("there is no %q after %q in\n%s", want, text[max(at-60, 0):at], text)
		}
		at += i
	}
}

// TestPageOfOnlyPorts checks that a bridge with one port of each kind has no tables of ports.
func TestPageOfOnlyPorts(t *testing.T) {
	o := options()
	o.Env.Bridge = onlyPorts{commandtest.New(1)}
	text := pageOf(t, newFake(), o)
	for id, want := range map[string]bool{"ports": false, "ib-ports": false, "segments": true} {
		if empty := strings.Contains(text, fmt.Sprintf(`<section id="%s"></section>`, id)); empty == want {
			t.Errorf("%s is empty: %v", id, empty)
		}
	}
}

// onlyPorts has one port of each kind.
type onlyPorts struct{ *commandtest.Fake }

// Fabrics has none: there is one InfiniBand port.
func (onlyPorts) Fabrics() []multipath.Report { return nil }

// TestPageIsOwn checks that everything that the page loads comes from this server.
func TestPageIsOwn(t *testing.T) {
	text := pageOf(t, newFake(), options())
	files := regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1)
	for _, f := range files {
		w := httptest.NewRecorder()
		handler(newFake(), options()).ServeHTTP(w, httptest.NewRequest("GET", "/"+f[1], nil))
		if w.Code != 200 {
			t.Errorf("%s: %d", f[1], w.Code)
		}
	}
	if len(files) < 7 {
		t.Errorf("%q", files)
	}
	all, err := fs.Glob(pageFiles, "page/*")
	if err != nil || len(all) < 5 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, name := range all {
		b, err := fs.ReadFile(pageFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		if url := regexp.MustCompile(`[^"]*//[a-z][^ ]*`).Find(b); url != nil && !strings.Contains(string(url), "http://www.w3.org/2000/svg") || !strings.Contains(string(b), "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s: %q, or no licence", name, url)
		}
	}
}

// TestPageEscapes checks that no text of a configuration, a peer or a log becomes HTML.
func TestPageEscapes(t *testing.T) {
	o := options()
	o.Name, o.Version = hostile, hostile
	if text := pageOf(t, newFake(), o); strings.Count(text, "<script") != 1 || strings.Count(text, "&lt;script&gt;") < 3 {
		t.Errorf("%s", text)
	}
}

// TestPageHasNoSecrets checks that Q_Keys and the console's token are not shown.
func TestPageHasNoSecrets(t *testing.T) {
	o := options()
	cfg := o.Env.Bridge.(interface{ Config() *config.Config }).Config()
	if cfg.Console.Token == "" {
		t.Fatal("the fake has no token")
	}
	text := strings.ToLower(pageOf(t, newFake(), o))
	for _, secret := range []string{cfg.Console.Token, "q_key", "qkey", "0x01234567"} {
		if strings.Contains(text, secret) {
			t.Errorf("the page shows %q", secret)
		}
	}
}

// TestPageTables checks that the columns of the page's tables are columns of the commands.
func TestPageTables(t *testing.T) {
	p := newPage(newFake(), options())
	for i := range pageTables {
		x := &pageTables[i]
		part := p.run(t.Context(), x.line, x.part)
		for c := range strings.SplitSeq(x.columns, ", ") {
			name := strings.TrimLeft(c, "+-!")
			if !slices.ContainsFunc(part.Columns, func(c command.Column) bool { return c.Name == name }) {
				t.Errorf("%s: %q has no column %q in its part %q", x.id, x.line, name, x.part)
			}
		}
	}
}

// droppingMost is a console's bridge that drops most of what comes each second.
type droppingMost struct {
	twoPorts
	looks *atomic.Uint64
}

func (d droppingMost) Counters() (c lcore.Counters) {
	n := d.looks.Add(1)
	c.Direction[lcore.RoCEToIB] = lcore.DirectionCounters{Received: 100 * n, Sent: 10 * n, Drops: map[lcore.Drop]uint64{lcore.DropACL: 90 * n}}
	return c
}

// TestBadge checks what the page says first of the bridge's state, and that a bridge which drops most is not shown as a healthy one.
func TestBadge(t *testing.T) {
	badge := regexp.MustCompile(`<p class="state ([a-z]+)"><strong>([^<]*)</strong>`)
	for i, want := range [][2]string{{"ready", "ready"}, {"dropping", "ready, drops most"}} {
		synctest.Test(t, func(t *testing.T) {
			o := options()
			if i == 1 {
				o.Env.Sampler = command.NewSampler(droppingMost{twoPorts{commandtest.New(3)}, new(atomic.Uint64)})
			}
			ctx, stop := context.WithCancel(t.Context())
			go o.Env.Sampler.Run(ctx)
			time.Sleep(3500 * time.Millisecond)
			b := newFake()
			b.ready = true
			if got := badge.FindStringSubmatch(pageOf(t, b, o)); len(got) != 3 || [2]string(got[1:]) != want {
				t.Errorf("the badge is %q, want %q", got, want)
			}
			stop()
		})
	}
}

// TestPageIsRenderedOnce checks that many readers do not read the bridge more often than one.
func TestPageIsRenderedOnce(t *testing.T) {
	b := newFake()
	p := newPage(b, options())
	p.every = time.Hour
	p.sections()
	n := b.loops.Load()
	for range 9 {
		p.serve(httptest.NewRecorder(), nil)
	}
	if b.loops.Load() != n {
		t.Error("the bridge was read again")
	}
	p.rendered = time.Now().Add(-time.Hour)
	if p.sections(); b.loops.Load() == n {
		t.Error("the bridge was not read again after the period")
	}
}

// points returns a point a second, the last one now, of the rates to IB; to RoCE it is half.
func points(now time.Time, rates ...command.Rate) (all []command.Point) {
	for i, r := range rates {
		all = append(all, command.Point{At: now.Add(time.Duration(i-len(rates)+1) * time.Second),
			Rates: [2]command.Rates{lcore.RoCEToIB: {Sent: r}, lcore.IBToRoCE: {Sent: r / 2}}})
	}
	return all
}

// TestPlots checks the lines of plots: to IB above the middle, to RoCE below it.
func TestPlots(t *testing.T) {
	now := time.Now()
	gap := append(points(now.Add(-20*time.Second), 5, 5), points(now, 10)...)
	old := points(now.Add(-11*time.Minute), 10)
	long := points(now, make([]command.Rate, 700)...)
	for name, c := range map[string]struct {
		points       []command.Point
		toIB, toRoCE string
	}{
		"nothing":         {nil, "", ""},
		"one":             {points(now, 10), "M600 100V0V100", "M600 100V150V100"},
		"flat, then less": {points(now, 10, 10, 10, 5), "M597 100V0h2l1 50V100", "M597 100V150h2l1 -25V100"},
		"a gap":           {gap, "M579 100V50h1V100M600 100V0V100", "M579 100V125h1V100M600 100V150V100"},
		"too old":         {append(old, points(now, 1)...), "M600 100V90V100", "M600 100V105V100"},
		"more than fits":  {long, "M0 100V100h600V100", "M0 100V100h600V100"},
	} {
		p := plotsOf(c.points, now)[0]
		if p.Lines[0].Path != c.toIB || p.Lines[1].Path != c.toRoCE {
			t.Errorf("%s: %+v", name, p.Lines)
		}
	}
	p := plotsOf(points(now, 3, 1230, 70), now)[0]
	if p.Top != 2000 || p.Peak != 1230 || p.Lines[0].Last != 70 || p.Lines[1].Last != 35 || p.Lines[0].Class != "to-ib" {
		t.Errorf("%+v", p)
	}
	calm := make([]command.Rate, 600)
	for i := range calm {
		calm[i] = 250
	}
	spike := slices.Clone(calm)
	copy(spike[300:], []command.Rate{9e3, 1e4})
	rising := slices.Clone(calm)
	rising[599] = 1e4
	for name, c := range map[string]struct {
		rates     []command.Rate
		top, peak command.Rate
	}{"calm": {calm, 300, 250}, "a spike": {spike, 300, 1e4}, "it rises now": {rising, 1e4, 1e4}} {
		p := plotsOf(points(now, c.rates...), now)[0]
		if p.Top != c.top || p.Peak != c.peak || name == "a spike" && !strings.Contains(p.Lines[0].Path, "l1 -17h1l1 17") {
			t.Errorf("%s: up to %v, peak %v: %s", name, float64(p.Top), float64(p.Peak), p.Lines[0].Path)
		}
	}
	for r, want := range map[command.Rate]command.Rate{0: 10, 9: 10, 10: 10, 11: 20, 49: 50, 51: 100, 100: 100, 2.1e9: 3e9} {
		if got := roundUp(r); got != want {
			t.Errorf("roundUp(%v) = %v", float64(r), float64(got))
		}
	}
}

// TestDrawing checks what the arrows and the hosts of the drawing depend on.
func TestDrawing(t *testing.T) {
	h := []command.Point{{Rates: [2]command.Rates{
		lcore.RoCEToIB: {Received: 1000, Sent: 900, Bits: 7, Dropped: 100}, lcore.IBToRoCE: {Received: 10, Sent: 9, Bits: 8, Dropped: 1}}}}
	d := drawingOf(&Status{Counts: Counts{Hosts: 100, Nodes: 1}}, nil, h)
	var packets []command.Rate
	for _, l := range d.Lanes {
		packets = append(packets, l.Packets)
	}
	if !slices.Equal(packets, []command.Rate{1000, 9, 900, 10}) || d.Dropped != 101 || d.Lanes[0].Width != 5 || d.Lanes[1].Width != 2 || d.Lanes[2].Bits != 7 {
		t.Errorf("%+v", d)
	}
	if y := d.RoCE.Spokes; len(y) != 7 || y[0] < 6 || y[6] > 84 || len(d.IB.Spokes) != 1 || d.IB.Spokes[0] != 45 {
		t.Errorf("%v, %v", y, d.IB.Spokes)
	}
	if w := width(command.Rate(math.MaxFloat32)); w > 50 {
		t.Errorf("width %d", w)
	}
}
