package apiserver

import (
	"context"
	"maps"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Taking on a user's uid, groups or extra needs the right for each, beside the right to be the
// user.
func TestImpersonationNeedsEachRight(t *testing.T) {
	// The user's own groups do not count here: a right is named by what is impersonated.
	rights := map[string]bool{}
	c := testConfig(t.TempDir())
	c.Access = func(AccessDeps) (*Access, error) {
		return &Access{
			Authorizer: authorizer.AuthorizerFunc(func(_ context.Context,
				a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetUser().GetName() != "bob" {
					return authorizer.DecisionAllow, "", nil
				}
				if a.GetVerb() == "impersonate" && rights[a.GetResource()+"/"+a.GetSubresource()+"="+a.GetName()] {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})}, nil
	}
	s, _, _ := startServer(t, c)
	bob := clientAs(t, s, "bob")
	const alice, uid, group, extra = "users/=alice", "uids/=7", "groups/=devs", "userextras/scopes=view"
	headers := map[string]string{uid: "Impersonate-Uid", group: "Impersonate-Group", extra: "Impersonate-Extra-Scopes"}
	values := map[string]string{uid: "7", group: "devs", extra: "view"}
	ask := func(more string) int {
		req := mustCreate[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet,
			bob.url+"/api/v1/namespaces/default/configmaps", http.NoBody))
		req.Header.Set("Impersonate-User", "alice")
		if more != "" {
			req.Header.Set(headers[more], values[more])
		}
		res := mustCreate[*http.Response](t)(bob.client.Do(req))
		res.Body.Close()
		return res.StatusCode
	}
	if code := ask(""); code != http.StatusForbidden {
		t.Errorf("without any right: %d, want %v", code, http.StatusForbidden)
	}
	rights[alice] = true
	if code := ask(""); code != http.StatusOK {
		t.Errorf("as the user: %d, want %v", code, http.StatusOK)
	}
	for _, more := range []string{uid, group, extra} {
		if code := ask(more); code != http.StatusForbidden {
			t.Errorf("%s without the right to it: %d, want %v", more, code, http.StatusForbidden)
		}
		had := maps.Clone(rights)
		rights[more] = true
		if code := ask(more); code != http.StatusOK {
			t.Errorf("%s with the right to it: %d, want %v", more, code, http.StatusOK)
		}
		rights = had
	}
}
