package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/registry"
)

// withUserAgent keeps the User-Agent of requests that write Pods, for the journal.
func withUserAgent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if ok && info.Resource == "pods" && info.APIGroup == "" && isWriteVerb(info.Verb) {
			req = req.WithContext(registry.WithUserAgent(req.Context(), req.UserAgent()))
		}
		next.ServeHTTP(w, req)
	})
}

// isWriteVerb reports whether requests with the verb change objects.
func isWriteVerb(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// withWatchBatching batches the events of watches over the network (package watchbatching).
// In-process clients get each event as it is written.
func (b *builder) withWatchBatching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "watch" && ctx.Value(identityKey{}) == nil {
			b.watchBatcher.ServeWatch(next, w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
