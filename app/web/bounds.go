// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net"
	"net/http"
	"time"

	"causeway/app/seats"
)

const (
	// connectionsMost bounds the connections. A scraper or a browser needs a few.
	connectionsMost = 64
	// headerMost bounds the header of a request.
	headerMost = 16 << 10
)

// httpServer returns a server whose clients can neither keep it busy by being slow nor fill its memory.
func httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           withoutBody(h),
		MaxHeaderBytes:    headerMost,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute, // longer than the usual intervals of scrapers, which keep their connections
	}
}

// withoutBody rejects requests with a body, unread: none needs one.
func withoutBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "send no body", http.StatusRequestEntityTooLarge)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// bounded is a listener with at most connectionsMost connections: a new one takes the place of the oldest of the peer
// that has the most, so that nobody is locked out.
type bounded struct {
	net.Listener
	seats *seats.Seats
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	seat, _ := b.seats.Take(seats.PeerOf(conn), func() { _ = conn.Close() }) // its request fails
	return &seated{conn, seat}, nil
}

// seated is a connection that frees its seat when it is closed.
type seated struct {
	net.Conn
	seat *seats.Seat
}

// Close implements net.Conn.
func (s *seated) Close() error {
	s.seat.Leave()
	return s.Conn.Close()
}
