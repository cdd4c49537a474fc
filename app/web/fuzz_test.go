// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest answers any request that net/http can read.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%2e%2e/status.json?a=b HTTP/1.0\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\n" +
		"Content-Length: 3\r\n\r\nabc", "GET /debug/pprof/goroutine?debug=1 HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /readyz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"} {
		f.Add([]byte(s))
	}
	h := handler(newFake(), options())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 301, 307, 308, 400, 404, 405}, w.Code) {
			t.Errorf("%q: status %d", b, w.Code)
		}
		if strings.HasPrefix(r.URL.Path, "/debug") && w.Code == 200 {
			t.Errorf("%q: a profile: %s", b, w.Body)
		}
	})
}
