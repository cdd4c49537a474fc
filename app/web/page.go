// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"sync"
	"time"

	"causeway/app/command"
	"causeway/app/logs"
)

//go:embed page
var pageFiles embed.FS

// pageTemplates escape all text: some comes from the network.
var pageTemplates = template.Must(template.ParseFS(pageFiles, "page/*.html"))

// A page is the bridge's state for browsers. Its sections are rendered once for all clients, and at most once a period,
// however many look and however often.
type page struct {
	src   Source
	o     Options
	every time.Duration

	mu       sync.Mutex
	rendered time.Time
	last     map[string]template.HTML

	listeners chan struct{} // has one for each
	patience  time.Duration // with a listener that does not read
}

const (
	// listenersMost bounds the listeners to /events.
	listenersMost = 16
	// listed is how many hosts, nodes, groups and events are shown: a screen of each.
	listed = 20
	// renderWithin bounds a rendering when management does not answer.
	renderWithin = 2 * time.Second
)

func newPage(src Source, o Options) *page {
	return &page{src: src, o: o, every: time.Second, listeners: make(chan struct{}, listenersMost), patience: 5 * time.Second}
}

// A view is what the templates show.
type view struct {
	Status
	Now              time.Time
	State, StateText string
	Uptime           command.Age
	Drawing          drawing
	Plots            []plot
	LostLines        []string
	Events           []logs.Event
}

func (p *page) view(ctx context.Context) *view {
	v := &view{Status: readStatus(ctx, p.src, p.o), Now: time.Now(), State: "ready", StateText: "ready"}
	v.Uptime = command.Age(v.Now.Sub(p.o.Started))
	switch {
	case v.Draining:
		v.State, v.StateText = "draining", "draining"
	case !v.Ready:
		v.State, v.StateText = "waiting", "not ready"
	case len(v.Dropping) > 0:
		v.State, v.StateText = "dropping", "ready, drops most"
	}
	var history []command.Point
	if p.o.Env != nil {
		history = p.o.Env.Sampler.History()
	}
	v.Drawing, v.Plots = drawingOf(&v.Status, p.o.Env, history), plotsOf(history, v.Now)
	v.LostLines = lostLines(&v.Status, p.run(ctx, "show status", "device_losses").Lines)
	if p.o.Events != nil {
		v.Events = newestFirst(p.o.Events(listed))
	}
	return v
}

// newestFirst keeps what matters in sight.
func newestFirst(events []logs.Event) []logs.Event {
	out := make([]logs.Event, len(events))
	for i, e := range events {
		out[len(events)-1-i] = e
	}
	return out
}

// sections returns the sections by their ids.
func (p *page) sections() map[string]template.HTML {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.rendered) < p.every*9/10 { // a listener's tick may come early
		return p.last
	}
	ctx, done := context.WithTimeout(context.Background(), renderWithin)
	defer done()
	v, out := p.view(ctx), map[string]template.HTML{}
	render := func(id, name string, data any) {
		var b bytes.Buffer
		if err := pageTemplates.ExecuteTemplate(&b, name, data); err != nil {
			b.Reset()
			template.HTMLEscape(&b, []byte(err.Error()))
		}
		out[id] = template.HTML(b.String()) // the template's, which escapes
	}
	for _, name := range []string{"head", "awaited", "drawing", "plots", "lost", "events"} {
		render(name, name, v)
	}
	for i := range pageTables {
		render(pageTables[i].id, "table", p.table(ctx, &pageTables[i]))
	}
	p.last, p.rendered = out, time.Now()
	return out
}

// A document is the whole page.
type document struct {
	Options
	sections map[string]template.HTML
}

// Started tells this bridge from the one before it.
func (d *document) Started() string { return started(&d.Options) }

func started(o *Options) string { return o.Started.UTC().Format(time.RFC3339Nano) }

// Section returns the HTML of a section.
func (d *document) Section(id string) template.HTML { return d.sections[id] }

// Column returns the ids of the sections of a column.
func (d *document) Column(n int) []string {
	return [...][]string{{"traffic", "drops", "lost"}, {"ports", "ib-ports", "segments", "groups", "latency", "workers"}, {"hosts", "nodes"}}[n]
}

// policy allows a browser to load from this server alone, to run no script of the page's text, to send nothing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (p *page) serve(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	// An error is of a client that has gone.
	_ = pageTemplates.ExecuteTemplate(w, "page.html", &document{p.o, p.sections()})
}

// file serves one of the page's files. A browser asks each time: another version of the bridge has other files.
func (p *page) file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.ServeFileFS(w, r, pageFiles, "page/"+name)
	}
}
