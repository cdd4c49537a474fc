// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

// news is an event of /events: the sections that have changed.
type news struct {
	Started  string                   `json:"started"`
	Sections map[string]template.HTML `json:"sections"`
}

// events sends news each period until the client goes, or does not read.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	select {
	case p.listeners <- struct{}{}:
		defer func() { <-p.listeners }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d listen already; more than that would slow the bridge's management", listenersMost), http.StatusServiceUnavailable)
		return
	}
	c := http.NewResponseController(w)
	// The server's is for requests; this client has nothing more to say.
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for sent := map[string]template.HTML{}; ; {
		n := news{started(&p.o), map[string]template.HTML{}}
		for id, section := range p.sections() {
			if before, ok := sent[id]; !ok || before != section {
				n.Sections[id], sent[id] = section, section
			}
		}
		if p.send(w, c, &n) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// send sends news to a client that must take them in time.
func (p *page) send(w http.ResponseWriter, c *http.ResponseController, n *news) error {
	text, err := json.Marshal(n) // on one line
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
		return err
	}
	return c.Flush()
}
