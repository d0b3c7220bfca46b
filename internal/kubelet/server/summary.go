package server

import "net/http"

// summary answers /stats/summary: node, Pods and containers as Stats measures them;
// ?only_cpu_and_memory=true leaves the rest out.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	if s.opts.Stats == nil {
		http.NotFound(w, r)
		return
	}
	out, err := s.opts.Stats.Summary(r.Context(), r.FormValue("only_cpu_and_memory") == "true")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, out)
}
