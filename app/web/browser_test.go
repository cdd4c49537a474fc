// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A browser is a headless Chromium with one page. The test drives it by the DevTools protocol, over a pipe: messages
// are JSON, each ended by a zero byte. The few that are needed have not changed in years. A library with all of them is
// older or newer than Debian's Chromium, whose version changes each month, and then does not know some of its values.
type browser struct {
	t       *testing.T
	to      *os.File
	session string // of the page

	mu       sync.Mutex
	calls    int
	answers  map[int]chan message
	requests []string // URLs
	wrong    []string // errors of the page and in its console
}

type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// patient is far longer than anything takes, so that a busy machine does not fail a test.
const patient = 3 * time.Minute

// chromium returns the path of a Chromium. Without one a test is skipped, but fails in CI.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "there is no Chromium to look at the page with; install Debian's package chromium-headless-shell"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := chromium(t)
	fromTest, to, err := os.Pipe()
	from, toTest, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	// Root cannot have Chromium's sandbox; the page is our own. /dev/shm is small in containers.
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{fromTest, toTest} // 3 and 4, as the browser expects
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromTest.Close()
	toTest.Close()
	b := &browser{t: t, to: to, answers: map[int]chan message{}}
	ended := make(chan struct{})
	go func() { defer close(ended); b.read(from) }()
	t.Cleanup(func() {
		to.Close() // it ends with the pipe
		stuck := time.AfterFunc(patient, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		_ = cmd.Wait() // by whatever exit code
		<-ended
		if t.Failed() {
			t.Logf("the browser:\n%s", &stderr)
		}
	})
	b.attach()
	return b
}

// attach makes the page, and has the browser report what happens in it.
func (b *browser) attach() {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
}

// read takes messages until the browser ends.
func (b *browser) read(from *os.File) {
	defer from.Close()
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			for id, c := range b.answers {
				close(c)
				delete(b.answers, id)
			}
			return
		}
		text = text[:len(text)-1]
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			b.note(&b.wrong, "not JSON: "+string(text))
		} else if m.ID != 0 {
			b.answer(m)
		} else {
			b.event(m.Method, text)
		}
	}
}

func (b *browser) answer(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[m.ID] <- m
	delete(b.answers, m.ID)
}

func (b *browser) note(to *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, text)
}

// event notes requests and errors.
func (b *browser) event(method string, text []byte) {
	var e struct {
		Params struct {
			Type    string
			Request struct{ URL string }
			Entry   struct{ Level string }
		}
	}
	_ = json.Unmarshal(text, &e) // other events have none of these
	p := &e.Params
	switch {
	case method == "Network.requestWillBeSent":
		b.note(&b.requests, p.Request.URL)
	case method == "Runtime.exceptionThrown", method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "warning"),
		method == "Log.entryAdded" && (p.Entry.Level == "error" || p.Entry.Level == "warning"):
		b.note(&b.wrong, string(text))
	}
}

// seen returns the requests and errors so far.
func (b *browser) seen() (requests, wrong []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.wrong
}

// call calls a method and reads its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// try is call, for what may fail while a page is loaded.
func (b *browser) try(method string, params, result any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	b.calls++
	m := message{ID: b.calls, SessionID: b.session, Method: method, Params: params}
	b.answers[m.ID] = answer
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("the browser has ended: %w", err)
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case m.Error != nil:
			return errors.New(m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-time.After(patient):
		return errors.New("no answer")
	}
}

// value returns the value of an expression in the page.
func value[T any](b *browser, expression string) (v T) {
	b.t.Helper()
	if err := b.evaluate(expression, &v); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *browser) evaluate(expression string, v any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	if err := b.try("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r); err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("exception %s", r.ExceptionDetails)
	}
	return json.Unmarshal(r.Result.Value, v)
}

// await waits until an expression is true. While a page is loaded, it may have no value.
func (b *browser) await(expression string) {
	b.t.Helper()
	for until := time.Now().Add(patient); ; time.Sleep(50 * time.Millisecond) {
		isTrue := false
		err := b.evaluate("Boolean("+expression+")", &isTrue)
		if err == nil && isTrue {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("it does not become true: %s (%v); the page:\n%s", expression, err, value[string](b, "document.body.innerText"))
		}
	}
}

// open opens a page and waits until it is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.await(`location.href === "` + url + `" && document.readyState === "complete"`)
}

// look sets the size and the colour scheme that the page is looked at with.
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.await(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches`)
}

// screenshot returns a picture of what is visible, and its file.
func (b *browser) screenshot() (image.Image, []byte) {
	b.t.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	return picture, shot.Data
}

// wantClean reports requests to another origin, and errors.
func (b *browser) wantClean(origin string) {
	b.t.Helper()
	requests, wrong := b.seen()
	for _, url := range requests {
		if !strings.HasPrefix(url, origin+"/") {
			b.t.Errorf("a request to %s", url)
		}
	}
	if len(requests) < 4 || len(wrong) > 0 { // the page, style, script, events
		b.t.Errorf("%d requests; errors: %s", len(requests), strings.Join(wrong, "\n"))
	}
}
