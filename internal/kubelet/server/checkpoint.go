package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkpoint has the runtime write a container's state into an archive below the kubelet's
// directory, and names the file.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	pod, ok := s.podOf(w, r)
	if !ok {
		return
	}
	if !hasContainer(pod, container) {
		http.Error(w, fmt.Sprintf("container %v does not exist", container), http.StatusNotFound)
		return
	}
	var timeout int64
	if list := r.URL.Query()["timeout"]; len(list) > 0 {
		n, err := strconv.ParseInt(list[len(list)-1], 10, 64)
		if err != nil {
			http.Error(w, "cannot parse value of timeout parameter", http.StatusNotFound)
			return
		}
		timeout = n
	}
	failed := func(err error) {
		http.Error(w, fmt.Sprintf("checkpointing of %v/%v/%v failed (%v)", namespace, name, container, err),
			http.StatusInternalServerError)
	}
	c, err := s.container(r.Context(), pod, container)
	if err != nil {
		failed(err)
		return
	}
	file := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", name, namespace, container, time.Now().Format(time.RFC3339))
	req := &runtimeapi.CheckpointContainerRequest{ContainerId: c.Id,
		Location: filepath.Join(s.opts.Endpoints.Checkpoints, file), Timeout: timeout}
	if err := s.opts.Runtime.CheckpointContainer(r.Context(), req); err != nil {
		failed(err)
		return
	}
	body, err := json.Marshal(map[string][]string{"items": {req.Location}})
	if err != nil {
		failed(err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
