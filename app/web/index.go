// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html/template"
	"net/http"
)

// index is the page for browsers: the bridge's state, and links.
var index = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Causeway {{.Name}}</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.4rem; margin-bottom: 0 } p.sub { color: #666; margin-top: 0 }
table { border-collapse: collapse } td { padding: .2rem 1.5rem .2rem 0; vertical-align: top } td.n { text-align: right }
.yes { color: #176b2c } .no { color: #a11 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } p.sub { color: #999 } a { color: #8bf } .yes { color: #6d8 } .no { color: #f88 } }
</style>
<h1>{{.Name}}</h1>
<p class="sub">Causeway {{.Version}}, {{.DPDK}}</p>
<p>{{if .Draining}}<b class="no">draining</b>: the bridge is stopping, or has left its groups to another.
{{- else if .Ready}}<b class="yes">ready</b>: every group is joined and every node has its path.
{{- else}}<b class="no">not ready</b>: waiting for joins and paths: {{.Waiting}}.{{end}}</p>
<table>
<tr><td></td><td>received</td><td>sent</td><td>dropped</td></tr>
{{range $d, $c := .Directions}}<tr><td>{{$d}}</td><td class="n">{{$c.Received}}</td><td class="n">{{$c.Sent}}</td><td class="n">{{$c.Dropped}}</td></tr>
{{end}}</table>
<p>RoCE hosts: {{.Counts.Hosts}}; InfiniBand nodes: {{.Counts.Nodes}}; groups: {{.Counts.Groups}}; proxy QPs: {{.Counts.ProxyQPs}}.</p>
<table>
<tr><td><a href="/metrics">/metrics</a></td><td>for Prometheus</td></tr>
<tr><td><a href="/status.json">/status.json</a></td><td>all of this and more, as JSON</td></tr>
<tr><td><a href="/healthz">/healthz</a></td><td>200 while every worker makes progress</td></tr>
<tr><td><a href="/readyz">/readyz</a></td><td>200 when all joins and paths are there, until the bridge stops</td></tr>
{{if .Pprof}}<tr><td><a href="/debug/pprof/">/debug/pprof/</a></td><td>profiles of the program</td></tr>
{{end}}</table>
</html>
`))

func writeIndex(w http.ResponseWriter, src Source, o Options) {
	s, counters := src.Status(), src.Counters()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = index.Execute(w, struct { // the client has gone
		Options
		Ready, Draining bool
		Waiting         int
		Directions      map[string]DirectionStatus
		Counts          Counts
	}{o, s.Ready, o.draining(), s.Waiting, directionsOf(&counters),
		Counts{Hosts: s.Hosts, Nodes: s.Nodes, Groups: s.Groups, ProxyQPs: s.ProxyQPs}})
}
