// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var pictures = flag.String("pictures", "", "leave pictures of the page in this folder")

// picture returns a picture of what is visible, and leaves it in the folder.
func (b *browser) picture(name string) image.Image {
	b.t.Helper()
	picture, file := b.screenshot()
	if *pictures != "" {
		if err := os.WriteFile(filepath.Join(*pictures, name+".png"), file, 0o644); err != nil {
			b.t.Error(err)
		}
	}
	return picture
}

// cellText is a script for a cell of a table: row begins with it.
func cellText(table, row, column string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#%s tbody tr")].find(r => r.innerText.startsWith(%q))?.querySelector("[data-column='%s']").innerText`, table, row, column)
}

func statusOf(t *testing.T, address string) (s Status) {
	t.Helper()
	r, err := http.Get("http://" + address + "/status.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPageInBrowser looks at the page of a bridge with traffic.
func TestPageInBrowser(t *testing.T) {
	b := startBrowser(t)
	address := liveBridge(t)
	origin := "http://" + address
	b.open(origin + "/")
	b.await(`document.getElementById("live").textContent === "live"`)

	testNumbers(t, b, address)
	testPlots(b)
	for text, where := range map[string][3]string{
		"joined": {"groups", "239.1.2.3", "state"}, "resolved": {"nodes", "10.9.0.7", "path"}, "stranger": {"hosts", "10.9.0.1", "state"}, "0x0": {"nodes", "10.9.0.7", "LID"},
	} {
		b.await(fmt.Sprintf("%s.startsWith(%q)", cellText(where[0], where[1], where[2]), text))
	}
	b.await(`document.querySelector("#drops small").innerText === "the ICRC is wrong"`)
	// Which of host and group comes last depends on the machine; that the newest is first does not.
	b.await(`[...document.querySelectorAll("#events td + td")].some(e => e.innerText === "host_learned")`)
	b.await(`[...document.querySelectorAll("#events tr td:first-child")].map(e => Date.parse(e.innerText + " 2000")).every((at, i, all) => at > 0 && (i === 0 || at <= all[i-1]))`)
	testLooks(t, b)
	b.wantClean(origin)
	testPolicy(t, b)

	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(origin + "/")
	text := value[string](b, "document.body.innerText")
	for _, want := range []string{"live", "ready", "1 host", "1 node", "239.1.2.3", "the ICRC is wrong", "Packets/s", "host_learned"} {
		if !strings.Contains(text, want) {
			t.Errorf("without scripts there is no %q in\n%s", want, text)
		}
	}
}

// testNumbers checks that numbers move without a reload, and lie between those of /status.json before and after.
func testNumbers(t *testing.T, b *browser, address string) {
	t.Helper()
	for range 3 {
		before := statusOf(t, address)
		for column, of := range map[string]func(*DirectionStatus) uint64{
			"received": func(d *DirectionStatus) uint64 { return d.Received }, "sent": func(d *DirectionStatus) uint64 { return d.Sent },
			"dropped": func(d *DirectionStatus) uint64 { return d.Dropped },
		} {
			was := before.Directions["roce_to_ib"]
			cell := cellText("traffic", "roce_to_ib", column)
			b.await(fmt.Sprintf("Number(%s) > %d", cell, of(&was)))
			shown := value[string](b, cell)
			now := statusOf(t, address).Directions["roce_to_ib"]
			if have := fmt.Sprint(of(&now)); len(shown) > len(have) || len(shown) == len(have) && shown > have {
				t.Errorf("%s: the page shows %s, the status %s", column, shown, have)
			}
		}
		was := before.Directions["roce_to_ib"].Drops["icrc"]
		b.await(fmt.Sprintf("parseInt(%s) > %d", cellText("drops", "icrc", "to IB"), was))
	}
	b.await(`document.querySelector(".lane.to-ib b").innerText !== "0"`)
}

// testPlots checks that the lines grow, to both sides, and that a fresh page has all of them at once.
func testPlots(b *browser) {
	b.t.Helper()
	const steps = `(document.querySelector("#plots .line.to-ib").getAttribute("d").match(/[lh]/g) ?? []).length`
	b.await(steps + " > 2")
	if value[string](b, `document.querySelector("#plots .line.to-roce").getAttribute("d")`) == "" {
		b.t.Error("no line to RoCE")
	}
	b.call("Page.reload", nil, nil)
	b.await(`document.readyState === "complete" && document.getElementById("live").textContent === "live"`)
	if n := value[int](b, steps); n <= 2 {
		b.t.Errorf("after a reload the plot has %d steps", n)
	}
}

// testLooks looks at the page on a wall and on a phone, in the light and in the dark.
func testLooks(t *testing.T, b *browser) {
	t.Helper()
	var grounds []color.Color
	for _, c := range []struct {
		name          string
		width, height int
		scheme        string
	}{{"light", 1600, 1000, "light"}, {"dark", 1600, 1000, "dark"}, {"tablet", 820, 1180, "dark"}, {"phone", 390, 844, "light"}} {
		b.look(c.width, c.height, c.scheme)
		picture := b.picture(c.name)
		if n := colours(picture); picture.Bounds().Dx() != c.width || n < 50 {
			t.Errorf("%s: %v, %d colours", c.name, picture.Bounds(), n)
		}
		grounds = append(grounds, picture.At(1, 1))
		const beyond = `[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200))`
		if wide := value[[]string](b, beyond); len(wide) > 0 || value[int](b, "document.documentElement.scrollWidth") > c.width {
			t.Errorf("%s: wider than %d: %q", c.name, c.width, wide)
		}
		const small = `[...document.querySelectorAll("td, th, p, span, small")].filter(e => e.innerText?.trim() && parseFloat(getComputedStyle(e).fontSize) < 11).length`
		if n := value[int](b, small); n > 0 {
			t.Errorf("%s: %d texts are too small to read", c.name, n)
		}
	}
	if grounds[0] == grounds[1] {
		t.Errorf("light and dark have the same ground: %v", grounds)
	}
}

func colours(p image.Image) int {
	seen := map[color.Color]bool{}
	for y := range p.Bounds().Dy() {
		for x := range p.Bounds().Dx() {
			seen[p.At(x, y)] = true
		}
	}
	return len(seen)
}

// testPolicy checks that the browser keeps the page from loading anything from elsewhere, and from running a script in
// it.
func testPolicy(t *testing.T, b *browser) {
	t.Helper()
	const blocked = `new Promise(done => {
		addEventListener("securitypolicyviolation", e => done(e.effectiveDirective), {once: true});
		setTimeout(() => done("nothing"), 30000);
		%s
	})`
	for do, want := range map[string]string{
		`new Image().src = "http://127.0.0.2:1/x.png"`:                                                      "img-src",
		`fetch("http://127.0.0.2:1/").catch(() => 0)`:                                                       "connect-src",
		`const s = document.createElement("script"); s.text = "window.ran = true"; document.body.append(s)`: "script-src-elem",
		`document.body.setAttribute("style", "color: red")`:                                                 "style-src-attr",
	} {
		if got := value[string](b, fmt.Sprintf(blocked, do)); got != want {
			t.Errorf("%s violates %s, want %s", do, got, want)
		}
	}
}

// TestPageIsNotLive checks that a page that gets no news says so, also when the server refuses it, and that it comes
// back with the next bridge.
func TestPageIsNotLive(t *testing.T) {
	b, waiting := startBrowser(t), newFake()
	waiting.ready = false
	var now atomic.Pointer[http.Handler]
	use := func(h http.Handler) { now.Store(&h) }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	refuse := func() {
		use(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) }))
		s.CloseClientConnections()
	}
	defer func() { refuse(); s.Close() }() // which would wait for the listener
	use(handler(waiting, options()))
	b.look(1600, 1000, "dark")
	b.open(s.URL + "/")
	const live = `document.getElementById("live").textContent`
	b.await(live + ` === "live" && document.querySelector(".state.waiting") && document.querySelectorAll("#awaited li").length === 2`)
	if title := value[string](b, "document.title"); !strings.HasPrefix(title, `a "b" \ c`) {
		t.Errorf("title %q", title)
	}
	b.picture("waiting")

	refuse()
	b.await(live + `.startsWith("not live") && document.body.classList.contains("stale")`)
	b.picture("stale")

	next := options()
	next.Started = next.Started.Add(time.Hour)
	use(handler(newFake(), next))
	b.await(live + ` === "live" && document.querySelector(".state.ready") && !document.body.classList.contains("stale")`)
}
