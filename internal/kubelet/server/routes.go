package server

import (
	"net/http"
	"strings"
)

// route is one row of what is served: a pattern of http.ServeMux, the subresources of nodes that
// allow it (any one suffices), and who answers.
type route struct {
	pattern string
	allowed []string
	serve   http.HandlerFunc
}

// fineGrained is one of upstream's fine-grained subresources, or proxy: all rights on the node.
func fineGrained(sub string) []string { return []string{sub, "proxy"} }

// routeTable is everything that is served. A GET that becomes a WebSocket is authorized as get, as
// upstream's kubelet does (kubernetes#136550): get on nodes/proxy is no right to read only.
func (s *Server) routeTable() []route {
	rows := append(s.readRoutes(),
		route{"GET /configz", fineGrained("configz"), s.configz},
		route{"POST /checkpoint/{namespace}/{pod}/{container}", []string{"checkpoint"}, s.checkpoint},
	)
	if s.opts.Endpoints.Disabled.Debugging {
		return append(rows, s.disabledDebugRoutes()...)
	}
	rows = append(rows, streamRoutes(s)...)
	rows = append(rows, s.logRoutes()...)
	return append(rows, s.debugRoutes()...)
}

// readRoutes are the rows that the read-only port has too.
func (s *Server) readRoutes() []route {
	return []route{
		{"GET /healthz", fineGrained("healthz"), s.healthz},
		{"GET /healthz/{check}", fineGrained("healthz"), s.healthz},
		{"GET /pods", fineGrained("pods"), s.pods},
		{"GET /pods/{$}", fineGrained("pods"), s.pods},
		{"GET /metrics", []string{"metrics"}, s.opts.Metrics.ServeHTTP},
		{"GET /metrics/slis", []string{"metrics"}, s.slis.ServeHTTP},
		{"GET /metrics/cadvisor", []string{"metrics"}, serveHandler(s.opts.Endpoints.Cadvisor)},
		{"GET /metrics/resource", []string{"metrics"}, serveHandler(s.opts.Endpoints.Resource)},
		{"GET /metrics/probes", []string{"metrics"}, serveHandler(s.opts.Endpoints.Probes)},
		{"GET /stats/summary", []string{"stats"}, s.summary},
		{"POST /stats/summary", []string{"stats"}, s.summary},
	}
}

func streamRoutes(s *Server) []route {
	proxy := []string{"proxy"}
	rows := []route{
		{"GET /runningpods", fineGrained("pods"), s.runningPods},
		{"GET /runningpods/{$}", fineGrained("pods"), s.runningPods},
		{"GET /listening/{namespace}/{pod}", fineGrained("pods"), s.listening},
		{"GET /drivercalls", fineGrained("pods"), s.driverCalls},
		{"GET /containerLogs/{namespace}/{pod}/{container}", proxy, s.containerLogs},
		{"POST /run/{namespace}/{pod}/{container}", proxy, s.run},
		{"POST /run/{namespace}/{pod}/{uid}/{container}", proxy, s.run},
	}
	for _, method := range []string{"GET ", "POST "} {
		rows = append(rows,
			route{method + "/exec/{namespace}/{pod}/{container}", proxy, s.exec},
			route{method + "/exec/{namespace}/{pod}/{uid}/{container}", proxy, s.exec},
			route{method + "/attach/{namespace}/{pod}/{container}", proxy, s.attach},
			route{method + "/attach/{namespace}/{pod}/{uid}/{container}", proxy, s.attach},
			route{method + "/portForward/{namespace}/{pod}", proxy, s.portForward},
			route{method + "/portForward/{namespace}/{pod}/{uid}", proxy, s.portForward},
		)
	}
	return rows
}

// disabledDebugRoutes answers for what enableDebuggingHandlers=false leaves out.
func (s *Server) disabledDebugRoutes() []route {
	off := refused("Debug endpoints are disabled.")
	var rows []route
	for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/debug/pprof/"} {
		rows = append(rows, route{path, []string{"proxy"}, off})
	}
	return append(rows, route{"/runningpods/", fineGrained("pods"), off}, route{"/logs/", []string{"log"}, off})
}

func refused(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusMethodNotAllowed) }
}

func serveHandler(h http.Handler) http.HandlerFunc {
	if h == nil {
		return http.NotFound
	}
	return h.ServeHTTP
}

// routes puts the rows into a mux; the authorization of a row is asked before it answers, and what
// is not a row needs proxy to learn that it is none.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routeTable() {
		mux.HandleFunc(r.pattern, s.authorized(r.allowed, r.serve))
	}
	mux.HandleFunc("/", s.authorized([]string{"proxy"}, s.notFound))
	return s.instrument(mux)
}

// readOnly are the paths that only GET reads.
var readOnly = []string{"/pods", "/runningpods", "/containerLogs/", "/logs", "/configz", "/healthz"}

// notFound tells a wrong method from a wrong path.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	for _, path := range readOnly {
		if r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, path) {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
	}
	http.NotFound(w, r)
}

// longRunning are the paths whose requests last.
var longRunning = map[string]bool{"exec": true, "attach": true, "portForward": true, "containerLogs": true, "run": true,
	"debug": true}

// instrument tells Endpoints.Count of each request by the first element of its path, two of
// /metrics/*.
func (s *Server) instrument(next http.Handler) http.Handler {
	if s.opts.Endpoints.Observe == nil {
		return next
	}
	known := map[string]bool{}
	for _, r := range s.routeTable() {
		_, path, _ := strings.Cut(r.pattern, "/")
		known[bucket(path)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bucket(strings.TrimPrefix(r.URL.Path, "/"))
		if !known[b] {
			b = "other"
		}
		defer s.opts.Endpoints.Observe(r.Method, b, longRunning[b])()
		next.ServeHTTP(w, r)
	})
}

func bucket(path string) string {
	head, rest, _ := strings.Cut(path, "/")
	if head == "metrics" && rest != "" {
		return head + "/" + rest
	}
	return head
}
