package server

import (
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/gantry-project/gantry/internal/kubelet/server/nodelog"
)

// logRoutes show the machine's own logs.
func (s *Server) logRoutes() []route {
	show := s.nodeLogs
	if s.opts.Endpoints.Disabled.SystemLogs {
		show = refused("logs endpoint is disabled.")
	}
	return []route{{"GET /logs", []string{"log"}, show}, {"GET /logs/", []string{"log"}, show}}
}

// nodeLogs serves files and directories below the log directory; with a query (when that is
// switched on) the logs of services.
func (s *Server) nodeLogs(w http.ResponseWriter, r *http.Request) {
	dir := s.opts.Endpoints.NodeLogs
	if dir == "" {
		dir = "/var/log/"
	}
	file := strings.TrimPrefix(r.URL.Path, "/logs")
	if s.opts.Endpoints.LogQuery {
		q, errs := nodelog.Parse(r.URL.Query())
		if len(errs) > 0 {
			http.Error(w, errs.ToAggregate().Error(), http.StatusBadRequest)
			return
		}
		if q != nil {
			if strings.Trim(file, "/") != "" {
				http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
				return
			}
			if errs := q.Check(); len(errs) > 0 {
				http.Error(w, errs.ToAggregate().Error(), http.StatusNotAcceptable)
				return
			}
			if len(q.Services) > 0 {
				nodelog.Serve(w, r, dir, q)
				return
			}
			file = q.Files[0]
		}
	}
	s.logFile(w, r, dir, file)
}

// logFile serves one file, or a directory's list. Links that lead out of the directory are not
// followed.
func (s *Server) logFile(w http.ResponseWriter, r *http.Request, dir, file string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer root.Close()
	q := r.Clone(r.Context())
	q.URL.Path = path.Clean("/" + file)
	if strings.HasSuffix(file, "/") && q.URL.Path != "/" {
		q.URL.Path += "/"
	}
	http.FileServerFS(root.FS()).ServeHTTP(w, q)
}
