package server

import (
	"encoding/json"
	"net/http"
)

// Sockets is the answer of /listening/NAMESPACE/POD: where processes of a Pod take TCP connections,
// ADDRESS:PORT with * for every address.
type Sockets struct {
	Listening []string `json:"listening"`
}

// listening tells `gantry trace packet` what is at a packet's end. Upstream's kubelet has no such
// page.
func (s *Server) listening(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.podOf(w, r)
	if !ok {
		return
	}
	if s.opts.Endpoints.Sockets == nil {
		http.Error(w, "sockets are not known here", http.StatusNotFound)
		return
	}
	found, err := s.opts.Endpoints.Sockets(pod)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if found == nil {
		found = []string{}
	}
	_ = json.NewEncoder(w).Encode(Sockets{found}) // the client has gone
}
