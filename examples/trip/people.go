package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Where approvers find what waits for them, and where the bank calls back.
const (
	pagePath  = "/ask"
	eventPath = "/events"
)

// who believes everybody: a name without a password. That will do for an example on one's own machine, and nowhere
// else. Who says nothing is the guest.
func who(r *http.Request) (saga.Caller, error) {
	name, _, _ := r.BasicAuth()
	if name == "" {
		name = "guest"
	}
	return saga.Caller{Subject: name}, nil
}

// serveWithPages is [server.Server.Serve], but that browsers are asked for a name.
func serveWithPages(ctx context.Context, s *server.Server, l net.Listener) error {
	inner := s.Handler()
	h := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, named := r.BasicAuth(); !named && strings.HasPrefix(r.URL.Path, pagePath+"/waiting") {
			w.Header().Set("WWW-Authenticate", `Basic realm="trip: any password does"`)
			http.Error(w, "Who are you?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})}
	defer context.AfterFunc(ctx, func() {
		s.CloseStreams()
		_ = h.Close()
	})()
	err := h.Serve(l)
	s.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
