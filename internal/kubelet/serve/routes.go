package serve

import (
	"net/http"
)

// route is one row of what is served: a pattern of http.ServeMux, the subresources of nodes that allow it (any one suffices), and who answers.
type route struct {
	pattern string
	allowed []string
	serve   http.HandlerFunc
}

// rows is everything that is served. Upstream's fine-grained subresources come first, proxy (all rights on the node) is the older one.
func (s *Server) rows() []route {
	fine := func(sub string) []string { return []string{sub, "proxy"} }
	proxy := []string{"proxy"}
	return []route{
		{"GET /healthz", fine("healthz"), s.healthz},
		{"GET /healthz/ping", fine("healthz"), s.healthz},
		{"GET /healthz/syncloop", fine("healthz"), s.healthz},
		{"GET /configz", fine("configz"), s.configz},
		{"GET /pods", fine("pods"), s.pods},
		{"GET /pods/{$}", fine("pods"), s.pods},
		{"GET /runningpods", fine("pods"), s.runningPods},
		{"GET /runningpods/{$}", fine("pods"), s.runningPods},
		{"GET /metrics", []string{"metrics"}, s.o.Metrics.ServeHTTP},
		{"GET /stats/summary", []string{"stats"}, s.summary},
		{"GET /containerLogs/{namespace}/{pod}/{container}", proxy, s.containerLogs},
		{"GET /exec/{namespace}/{pod}/{container}", proxy, s.exec},
		{"POST /exec/{namespace}/{pod}/{container}", proxy, s.exec},
		{"GET /exec/{namespace}/{pod}/{uid}/{container}", proxy, s.exec},
		{"POST /exec/{namespace}/{pod}/{uid}/{container}", proxy, s.exec},
		{"GET /attach/{namespace}/{pod}/{container}", proxy, s.attach},
		{"POST /attach/{namespace}/{pod}/{container}", proxy, s.attach},
		{"GET /attach/{namespace}/{pod}/{uid}/{container}", proxy, s.attach},
		{"POST /attach/{namespace}/{pod}/{uid}/{container}", proxy, s.attach},
		{"GET /portForward/{namespace}/{pod}", proxy, s.portForward},
		{"POST /portForward/{namespace}/{pod}", proxy, s.portForward},
		{"GET /portForward/{namespace}/{pod}/{uid}", proxy, s.portForward},
		{"POST /portForward/{namespace}/{pod}/{uid}", proxy, s.portForward},
		{"POST /run/{namespace}/{pod}/{container}", proxy, s.run},
		{"POST /run/{namespace}/{pod}/{uid}/{container}", proxy, s.run},
		{"POST /checkpoint/{namespace}/{pod}/{container}", []string{"checkpoint"}, s.checkpoint},
	}
}

// routes puts the rows into a mux; the authorization of a row is asked before it answers, and what is not a row needs proxy to learn that it is none.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.rows() {
		mux.HandleFunc(r.pattern, s.authorized(r.allowed, r.serve))
	}
	mux.HandleFunc("/", s.authorized([]string{"proxy"}, http.NotFound))
	return mux
}
