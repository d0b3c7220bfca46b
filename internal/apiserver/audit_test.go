package apiserver

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: [brief], omitStages: [RequestReceived, ResponseStarted]}
- {level: Metadata, users: [bob, admin]}
- {level: None}
`

// audited runs a server whose audit log events reads.
func audited(t *testing.T,
	access func(AccessDeps) (*Access, error)) (s *Server, c kubernetes.Interface,
	events func(match func(*auditv1.Event) bool) []auditv1.Event) {
	t.Helper()
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	config := testConfig(t.TempDir())
	config.Access = access
	config.Audit = options.NewAuditOptions()
	config.Audit.PolicyFile, config.Audit.LogOptions.Path = policy, log
	s, c, _ = startServer(t, config)
	return s, c, func(match func(*auditv1.Event) bool) (out []auditv1.Event) {
		f := mustCreate[*os.File](t)(os.Open(log))
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var e auditv1.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil && match(&e) {
				out = append(out, e)
			}
		}
		return out
	}
}

// Each stage of a request is recorded once and in its order: a short request begins and ends, a
// watch starts to answer between, a panic is an end of its own; stages that the rule omits are not
// there.
func TestAuditStages(t *testing.T) {
	s, _, events := audited(t, func(AccessDeps) (*Access, error) {
		return &Access{
			Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
			Paths: []Path{
				{Path: "/panics",
					Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") })}},
		}, nil
	})
	ask := func(user, path string) {
		g := clientAs(t, s, user)
		req := mustCreate[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path,
			http.NoBody))
		if res, err := g.client.Do(req); err == nil {
			for buf := make([]byte, 512); err == nil; {
				_, err = res.Body.Read(buf)
			}
			res.Body.Close()
		}
	}
	const list, watch = "/api/v1/namespaces/default/configmaps",
		"/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1"
	const received, started, complete, panicked = auditv1.StageRequestReceived, auditv1.StageResponseStarted,
		auditv1.StageResponseComplete, auditv1.StagePanic
	for _, tt := range []struct {
		user, path string
		want       []auditv1.Stage
	}{
		{"bob", list, []auditv1.Stage{received, complete}},
		{"bob", watch, []auditv1.Stage{received, started, complete}},
		{"bob", "/panics", []auditv1.Stage{received, panicked}},
		{"brief", list, []auditv1.Stage{complete}},
		{"brief", watch, []auditv1.Stage{complete}},
		{"brief", "/panics", []auditv1.Stage{panicked}},
	} {
		ask(tt.user, tt.path)
		var got []auditv1.Stage
		eventually(t, "the log has the end of "+tt.path+" by "+tt.user, func() bool {
			got = nil
			for _, e := range events(
				func(e *auditv1.Event) bool { return e.User.Username == tt.user && e.RequestURI == tt.path }) {
				got = append(got, e.Stage)
			}
			return len(got) > 0 && got[len(got)-1] == tt.want[len(tt.want)-1]
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s by %s: stages %v, want %v", tt.path, tt.user, got, tt.want)
		}
	}
}

// A policy with a parameter validates by the parameter, passes over what its matchConditions leave
// out, and writes its annotations to the audit log.
func TestPolicyWithParameters(t *testing.T) {
	_, c, events := audited(t, newBlockingAuthorizer().access)
	policies := c.AdmissionregistrationV1()
	put := func(name, key, value string) error {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}},
			metav1.CreateOptions{})
		return err
	}
	if err := put("limit", "forbidden", "red"); err != nil {
		t.Fatal(err)
	}
	mustCreate[*registrationv1.ValidatingAdmissionPolicy](t)(policies.ValidatingAdmissionPolicies().Create(t.Context(),
		&registrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "colours"},
			Spec: registrationv1.ValidatingAdmissionPolicySpec{
				ParamKind: &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: &registrationv1.MatchResources{
					ResourceRules: []registrationv1.NamedRuleWithOperations{
						{RuleWithOperations: registrationv1.RuleWithOperations{
							Operations: []registrationv1.OperationType{registrationv1.Create},
							Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"configmaps"}},
						}}}},
				MatchConditions: []registrationv1.MatchCondition{
					{Name: "not-spared", Expression: "object.metadata.name != 'spared'"}},
				Validations: []registrationv1.Validation{
					{Expression: "object.data.colour != params.data.forbidden",
						MessageExpression: "'not ' + params.data.forbidden"}},
				AuditAnnotations: []registrationv1.AuditAnnotation{
					{Key: "colour", ValueExpression: "'is ' + object.data.colour"}},
			},
		}, metav1.CreateOptions{}))
	mustCreate[*registrationv1.ValidatingAdmissionPolicyBinding](t)(policies.ValidatingAdmissionPolicyBindings().Create(
		t.Context(), &registrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "colours"},
			Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "colours", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
				ParamRef: &registrationv1.ParamRef{Name: "limit", Namespace: "default",
					ParameterNotFoundAction: new(registrationv1.DenyAction)},
			},
		}, metav1.CreateOptions{}))
	eventually(t, "the policy refuses by its parameter", func() bool {
		err := put("red", "colour", "red")
		if err == nil {
			_ = c.CoreV1().ConfigMaps("default").Delete(t.Context(), "red", metav1.DeleteOptions{})
		}
		return err != nil && strings.Contains(err.Error(), "denied request: not red")
	})
	if err := put("spared", "colour", "red"); err != nil {
		t.Errorf("what the conditions leave out: %v, want no error", err)
	}
	if err := put("blue", "colour", "blue"); err != nil {
		t.Errorf("another colour: %v, want no error", err)
	}
	eventually(t, "the annotation is in the audit log", func() bool {
		return len(events(func(e *auditv1.Event) bool {
			return e.ObjectRef != nil && e.Stage == auditv1.StageResponseComplete &&
				e.Annotations["colours/colour"] == "is blue"
		})) == 1
	})
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("default").Patch(t.Context(), "limit", types.MergePatchType,
		[]byte(`{"data":{"forbidden":"green"}}`), metav1.PatchOptions{}))
	eventually(t, "the policy validates by the parameter as it is now", func() bool {
		err := put("green", "colour", "green")
		if err == nil {
			_ = c.CoreV1().ConfigMaps("default").Delete(t.Context(), "green", metav1.DeleteOptions{})
		}
		return err != nil && strings.Contains(err.Error(), "denied request: not green")
	})
}
