package service

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Problem is the body of every answer that is not a success.
type Problem struct {
	Error string `json:"error"`
}

// Handler serves the service's API.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	route(mux, "PUT /holds/{key}", func(ctx context.Context, key string, in Request) (any, error) { return s.Place(ctx, key, in) })
	route(mux, "POST /holds/{key}/confirm", func(ctx context.Context, key string, in struct{ Units int }) (any, error) {
		return s.Confirm(ctx, key, in.Units)
	})
	route(mux, "POST /holds/{key}/ask", func(ctx context.Context, key string, in struct{ Callback string }) (any, error) {
		return nil, s.Ask(ctx, key, in.Callback)
	})
	route(mux, "POST /holds/{key}/agree", func(ctx context.Context, key string, _ struct{}) (any, error) { return nil, s.Agree(ctx, key) })
	route(mux, "DELETE /holds/{key}", func(ctx context.Context, key string, _ struct{}) (any, error) { return nil, s.Release(ctx, key) })
	route(mux, "GET /holds", func(ctx context.Context, _ string, _ struct{}) (any, error) { return s.List(ctx) })
	return mux
}

// route has requests answered by do, which gets their bodies: no body is the zero value.
func route[B any](mux *http.ServeMux, pattern string, do func(ctx context.Context, key string, body B) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var body B
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&body) // far more than a request needs
		if err != nil && !errors.Is(err, io.EOF) {
			write(w, http.StatusBadRequest, Problem{"the body is not the JSON that is expected: " + err.Error()})
			return
		}
		v, err := do(r.Context(), r.PathValue("key"), body)
		var no *Conflict
		switch {
		case errors.As(err, &no):
			write(w, http.StatusConflict, Problem{no.Reason})
		case err != nil:
			slog.Error("request failed", "error", err)
			write(w, http.StatusInternalServerError, Problem{"the service failed; try again"})
		case v == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			write(w, http.StatusOK, v)
		}
	})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone will ask again
}

// Serve serves the API on l until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = h.Close() })()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
