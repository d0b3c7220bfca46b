package server

import (
	"encoding/json"
	"net/http"
	"time"
)

// DriverCall is a call of a CSI driver that it has not answered yet.
type DriverCall struct {
	Driver string    `json:"driver"`
	Method string    `json:"method"` // as CSI names it: NodePublishVolume
	Since  time.Time `json:"since"`
}

// DriverCalls is the answer of /drivercalls.
type DriverCalls struct {
	Registered []string     `json:"registered,omitempty"` // drivers that the kubelet knows
	Calls      []DriverCall `json:"calls"`
}

// driverCalls tells `gantry why` which driver a Pod waits for. Upstream's kubelet has no such page.
func (s *Server) driverCalls(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Endpoints.DriverCalls == nil {
		http.Error(w, "calls of drivers are not known here", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.opts.Endpoints.DriverCalls()) // the client has gone
}
