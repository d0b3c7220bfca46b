// Package reviews is an API server that answers TokenReviews and SubjectAccessReviews, for tests of
// components that delegate authentication and authorization of their ports to it.
package reviews

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// Serve starts the server, until the test ends, and returns the configuration of its client. It
// authenticates the token "good" as alice and "known" as bob. Alice may do what allow says (nil:
// everything), bob nothing.
func Serve(t testing.TB, allow func(authorization.SubjectAccessReviewSpec) bool) *rest.Config {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			review := &authentication.TokenReview{}
			_ = json.NewDecoder(r.Body).Decode(review) // an empty one is nobody
			if name := map[string]string{"good": "alice", "known": "bob"}[review.Spec.Token]; name != "" {
				review.Status = authentication.TokenReviewStatus{Authenticated: true,
					User: authentication.UserInfo{Username: name}}
			}
			answer = review
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			review := &authorization.SubjectAccessReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			review.Status.Allowed = review.Spec.User == "alice" && (allow == nil || allow(review.Spec))
			answer = review
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer) // the caller went away
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, QPS: -1}
}
