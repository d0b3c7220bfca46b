package why

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
)

// Of a name that is not there the answer is printed, in each form, and the exit code is 1: a near
// name, the kind that has it, the namespace that has it, whoever made it last. An unknown kind is a
// wrong call that names the near one.
func TestANameThatIsNotThereIsAnswered(t *testing.T) {
	at := func(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	pods := corev1.PodList{Items: []corev1.Pod{{ObjectMeta: at("mine", "orders")}}}
	service := corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: at("mine", "catalog")}}}
	elsewhere := corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: at("mine", "catalog")},
		{ObjectMeta: at("other", "billing")}}}
	deployments := appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: at("mine", "frontend")}}}
	gone := corev1.EventList{Items: []corev1.Event{{ObjectMeta: at("mine", "e"), Reason: "Killing", Message: "Stopping",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "mine", Name: "was"}}}}
	served := map[string]any{"/api/v1/namespaces/mine/pods": &pods, "/api/v1/pods": &pods,
		"/api/v1/namespaces/mine/services": &service, "/api/v1/services": &elsewhere,
		"/apis/apps/v1/namespaces/mine/deployments": &deployments, "/api/v1/namespaces/mine/events": &gone,
		"/api/v1/namespaces": &corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: at("", "mine")},
			{ObjectMeta: at("", "other")}}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		o := served[r.URL.Path]
		if o == nil {
			w.WriteHeader(http.StatusNotFound)
			o = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(o); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\nusers: "+
		"[{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a, namespace: "+
		"mine}}]\ncurrent-context: a\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (printed, said string, code int) {
		var out, errs bytes.Buffer
		c := New(cli.IO{Out: &out, Err: &errs})
		c.SetArgs(append(args, "--kubeconfig", file))
		c.SetContext(t.Context())
		c.SilenceErrors, c.SilenceUsage = true, true
		code = cli.Report(&errs, c.Execute())
		return out.String(), errs.String(), code
	}
	for _, c := range []struct{ about, want, words string }{
		{"pod/ordes", "orders", "There is a Pod orders"},
		{"catalog", "", "There is a Service of that name"},
		{"frontend", "", "There is a Deployment of that name"},
		{"service/billing", "", "A Service of that name is in namespace other"},
		{"svc/cataolg", "catalog", "There is a Service catalog"},
	} {
		printed, said, code := run(c.about, "-o", "json")
		var a explain.Answer
		if err := json.Unmarshal([]byte(printed), &a); err != nil || code != 1 || a.Code != explain.NoSuchObject ||
			a.State != "not there" || len(a.Findings) != 1 || a.Findings[0].Want != c.want ||
			!strings.Contains(a.Cause, c.words) || !strings.Contains(said, "there is no "+a.Subject) {
			t.Errorf("%s: got %v, exit code %d, %q and\n%s\nwant exit code 1, want %q and words %q", c.about, err, code,
				said, printed, c.want, c.words)
		}
		if text, _, code := run(c.about); code != 1 || !strings.Contains(text, c.words) {
			t.Errorf("%s: got exit code %d and\n%s\nwant %q", c.about, code, text, c.words)
		}
		if text, _, code := run(c.about, "--watch"); code != 1 || !strings.Contains(text, c.words) {
			t.Errorf("%s --watch: got exit code %d and\n%s\nwant it to end with %q", c.about, code, text, c.words)
		}
	}
	if text, _, code := run("pod/was"); code != 0 || !strings.Contains(text, "no longer in the API") {
		t.Errorf("of a Pod whose events are left: got exit code %d and\n%s\nwant it told as gone", code, text)
	}
	if _, said, code := run("deploymnet/web"); code != 2 || !strings.Contains(said, "perhaps deployment was meant") {
		t.Errorf("of an unknown kind: got exit code %d and %q, want 2 and the near kind", code, said)
	}
}
