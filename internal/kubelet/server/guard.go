package server

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

// authFilter lets nobody in who is not somebody.
func (s *Server) authFilter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok, err := s.opts.Authenticator.AuthenticateRequest(r)
		if err != nil {
			klog.FromContext(r.Context()).V(2).Info("Unable to authenticate the request", "path", r.URL.Path,
				"err", err)
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(genericrequest.WithUser(r.Context(), info.User)))
	})
}

// authorized asks for each subresource in turn; the first yes is enough.
func (s *Server) authorized(subresources []string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		requester, _ := genericrequest.UserFrom(r.Context())
		verb := verbOf(r.Method)
		for _, sub := range subresources {
			decision, _, err := s.opts.Authorizer.Authorize(r.Context(), s.attributes(requester, verb, sub, r.URL.Path))
			if decision == authorizer.DecisionAllow {
				next(w, r)
				return
			}
			if err != nil {
				klog.FromContext(r.Context()).Error(err, "Authorization error", "user", requester.GetName(),
					"verb", verb, "subresource", sub)
				http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
					requester.GetName(), verb, subresources), http.StatusInternalServerError)
				return
			}
		}
		klog.FromContext(r.Context()).V(2).Info("Forbidden", "user", requester.GetName(), "verb", verb, "resource",
			"nodes", "subresource(s)", subresources)
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
			requester.GetName(), verb, subresources), http.StatusForbidden)
	}
}

func (s *Server) attributes(requester user.Info, verb, sub, path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: requester, Verb: verb, Namespace: "", APIGroup: "", APIVersion: "v1", Resource: "nodes", Subresource: sub,
		Name:            s.opts.NodeName,
		ResourceRequest: true, Path: path,
	}
}

func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return strings.ToLower(method)
}
