package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"k8s.io/component-base/logs"
)

// debugRoutes are profiles and the log's verbosity.
func (s *Server) debugRoutes() []route {
	proxy := []string{"proxy"}
	profiles, flags := s.profile, s.verbosity
	if s.opts.Endpoints.Disabled.Profiling {
		profiles = refused("profiling endpoint is disabled.")
	}
	if s.opts.Endpoints.Disabled.DebugFlags {
		flags = refused("flags endpoint is disabled.")
	}
	return []route{{"GET /debug/pprof/", proxy, profiles}, {"PUT /debug/flags/v", proxy, flags}}
}

// profile serves the process's profiles.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "cmdline":
		pprof.Cmdline(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

// verbosity sets the log's.
func (s *Server) verbosity(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64))
	if err != nil {
		http.Error(w, "error reading request body: "+err.Error(), http.StatusBadRequest)
		return
	}
	text, err := logs.GlogSetter(string(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, text)
}
