package apiserver

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/journal"
)

// traceRequester is a client that asks for the trace of its writes and keeps the last header.
type traceRequester struct {
	next      http.RoundTripper
	mu        sync.Mutex
	lastTrace string
}

func (c *traceRequester) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(journal.ExplainHeader, "true")
	res, err := c.next.RoundTrip(req)
	if err == nil {
		c.mu.Lock()
		c.lastTrace = res.Header.Get(journal.TraceHeader)
		c.mu.Unlock()
	}
	return res, err
}

// asking makes such a client for a user, speaking JSON as kubectl does.
func asking(t *testing.T, s *Server, u user.Info) (kubernetes.Interface, func() journal.RequestTrace) {
	t.Helper()
	c := &traceRequester{}
	cfg := s.InProcess(u)
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
	return kubernetes.NewForConfigOrDie(cfg), func() journal.RequestTrace {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		return mustCreate[journal.RequestTrace](t)(unpack(c.lastTrace))
	}
}

// step finds a step by name and who took it.
func step(t *testing.T, s journal.RequestTrace, name, by string) journal.Step {
	t.Helper()
	for _, p := range s.Steps {
		if p.Name == name && strings.HasPrefix(p.By, by) {
			return p
		}
	}
	raw, _ := json.MarshalIndent(s, "", " ")
	t.Fatalf("no step %q by %q in %s", name, by, raw)
	return journal.Step{}
}

// lines are the changes of a step.
func lines(p journal.Step) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.Line())
	}
	return strings.Join(out, "\n")
}

// row: TOO-13
func TestTraceOfAWrite(t *testing.T) {
	s, plainly := shared(t)
	ns := newNamespace(t, plainly)
	c, gotTrace := asking(t, s, admin())
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	got := gotTrace()
	if got.User != "admin" || got.Verb != "create" || got.Resource != "pods" || got.Name != "p" ||
		got.Code != http.StatusCreated || got.Revision == 0 {
		t.Errorf("got %+v", got)
	}
	var order []string
	for _, p := range got.Steps {
		if !slices.Contains(order, p.Name) {
			order = append(order, p.Name)
		}
	}
	want := []string{journal.StepAuthentication, journal.StepAuthorization, journal.StepReading, journal.StepMutation,
		journal.StepValidation, journal.StepAdmission, journal.StepStorage}
	if !slices.Equal(order, want) {
		t.Errorf("steps %q, want %q", order, want)
	}
	if p := step(t, got, journal.StepReading, ""); !strings.Contains(lines(p), `+ spec.restartPolicy: "Always"`) {
		t.Errorf("defaulting got %s", lines(p))
	}
	if p := step(t, got, journal.StepStorage, ""); !strings.Contains(p.Message, "/pods/"+ns+"/p at revision ") ||
		p.Took <= 0 {
		t.Errorf("storage got %+v", p)
	}
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
	if got := gotTrace(); !strings.Contains(lines(got.Steps[len(got.Steps)-1]), "labels") {
		t.Errorf("the patch got %+v", got)
	}
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
	if got := gotTrace(); !strings.Contains(got.Steps[len(got.Steps)-1].Message, "not written") {
		t.Errorf("a patch that changes nothing got %+v", got)
	}
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("dry"),
		metav1.CreateOptions{DryRun: []string{"All"}}))
	if got := gotTrace(); !got.DryRun || got.Revision != 0 {
		t.Errorf("a dry run got %+v", got)
	}
	if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err !=
		nil {
		t.Fatal(err)
	}
	if got := gotTrace(); !slices.ContainsFunc(got.Steps, func(p journal.Step) bool {
		return p.Name == journal.StepStorage && strings.HasPrefix(p.Message, "removed")
	}) {
		t.Errorf("a delete got %+v", got)
	}
}

// The trace of a refused write names the step that refused it, with the step's own message if it
// has one.
func TestTraceOfARefusedWrite(t *testing.T) {
	s, plainly := shared(t)
	ns := newNamespace(t, plainly)
	c, gotTrace := asking(t, s, admin())
	bad := pod("bad")
	bad.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 70000}}
	orphanPod := pod("lonely")
	orphanPod.Namespace = "nowhere"
	mustCreate[*corev1.Pod](t)(plainly.CoreV1().Pods(ns).Create(t.Context(), pod("there"), metav1.CreateOptions{}))
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		ns   string
		step string
		by   string
	}{
		"invalid":      {bad, ns, journal.StepValidation, ""},
		"no namespace": {orphanPod, "nowhere", journal.StepMutation, "NamespaceLifecycle"},
		"there":        {pod("there"), ns, journal.StepStorage, ""},
	} {
		if _, err := c.CoreV1().Pods(row.ns).Create(t.Context(), row.pod, metav1.CreateOptions{}); err == nil {
			t.Fatalf("%s: not refused", name)
		}
		got := gotTrace()
		i := slices.IndexFunc(got.Steps, func(p journal.Step) bool { return p.Refused })
		if i < 0 || got.Steps[i].Name != row.step || got.Steps[i].By != row.by {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// The trace has a step for each webhook and each policy, with what it changed.
func TestTraceNamesEachWebhookAndPolicy(t *testing.T) {
	s, plainly := shared(t)
	ns := newNamespace(t, plainly)
	server := httptest.NewTLSServer(&fakeWebhook{})
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	mustCreate[*registrationv1.MutatingWebhookConfiguration](t)(
		plainly.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
			&registrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: ns},
				Webhooks: []registrationv1.MutatingWebhook{{
					Name:         "m.example.com",
					ClientConfig: registrationv1.WebhookClientConfig{URL: new(server.URL + "/mutate"), CABundle: ca},
					Rules: []registrationv1.RuleWithOperations{{
						Operations: []registrationv1.OperationType{registrationv1.Create},
						Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods"}},
					}},
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
					SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				}},
			}, metav1.CreateOptions{}))
	c, gotTrace := asking(t, s, admin())
	eventually(t, "the webhook is told", func() bool {
		mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("x"),
			metav1.CreateOptions{DryRun: []string{"All"}}))
		return slices.ContainsFunc(gotTrace().Steps,
			func(p journal.Step) bool { return strings.HasPrefix(p.By, "m.example.com of "+ns) })
	})
	p := step(t, gotTrace(), journal.StepMutation, "m.example.com")
	if !strings.Contains(lines(p), `metadata.labels: {mutated: "yes"}`) || p.Took <= 0 {
		t.Errorf("the webhook got %+v", p)
	}
}

// A user without the permission gets no trace, and no trace has values of Secrets.
func TestRequestTraceNeedsPermission(t *testing.T) {
	s, plainly := shared(t)
	ns := newNamespace(t, plainly)
	c, gotTrace := asking(t, s, &user.DefaultInfo{Name: "eve"}) // the joint server lets only masters write
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{})
	if got := gotTrace(); err == nil || len(got.Steps) > 0 ||
		got.Withheld != "user eve may not explain pods in namespace "+ns {
		t.Errorf("%v: got %+v", err, got)
	}
	c, gotTrace = asking(t, s, admin())
	mustCreate[*corev1.Secret](t)(c.CoreV1().Secrets(ns).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "hush"}},
		metav1.CreateOptions{}))
	raw, _ := json.Marshal(gotTrace())
	mustCreate[*corev1.Secret](t)(c.CoreV1().Secrets(ns).Patch(t.Context(), "s", types.MergePatchType,
		[]byte(`{"stringData":{"k":"hush, hush"}}`), metav1.PatchOptions{}))
	more, _ := json.Marshal(gotTrace())
	for _, raw := range []string{string(raw), string(more)} {
		if strings.Contains(raw, "hush") || strings.Contains(raw, "aHVza") || !strings.Contains(raw, "***") {
			t.Errorf("the trace has values of a Secret: got %s, want it free of %q and %q and it to contain %q", raw,
				"hush", "aHVza", "***")
		}
	}
}

// unpack reads the header as internal/trace does, which this family may not import.
func unpack(header string) (s journal.RequestTrace, err error) {
	raw, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return s, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return s, err
	}
	return s, json.NewDecoder(z).Decode(&s)
}
