package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
)

// fakeWebhook is a webhook server: /mutate labels the object, /validate notes the labels it sees
// and refuses Pods named "refused".
type fakeWebhook struct {
	mu   sync.Mutex
	seen []string
}

func (h *fakeWebhook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var p corev1.Pod
	if err := json.Unmarshal(review.Request.Object.Raw, &p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if req.URL.Path == "/mutate" {
		out.PatchType = new(admissionv1.PatchTypeJSONPatch)
		out.Patch = []byte(`[{"op":"add","path":"/metadata/labels","value":{"mutated":"yes"}}]`)
	} else {
		h.mu.Lock()
		h.seen = append(h.seen, p.Name+" mutated="+p.Labels["mutated"])
		h.mu.Unlock()
		out.Allowed = p.Name != "refused"
		out.Result = &metav1.Status{Message: "not this one"}
	}
	review.Request, review.Response = nil, out
	_ = json.NewEncoder(w).Encode(review)
}

// row: API-04
func TestWebhooksMutateThenValidate(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	h := &fakeWebhook{}
	server := httptest.NewTLSServer(h)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	client := func(path string) registrationv1.WebhookClientConfig {
		return registrationv1.WebhookClientConfig{URL: new(server.URL + path), CABundle: ca}
	}
	pods := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}},
	}}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	webhooks := c.AdmissionregistrationV1()
	mustCreate[*registrationv1.MutatingWebhookConfiguration](t)(webhooks.MutatingWebhookConfigurations().Create(
		t.Context(), &registrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Webhooks: []registrationv1.MutatingWebhook{{
				Name: "m.example.com", ClientConfig: client("/mutate"), Rules: pods, NamespaceSelector: here,
				SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{}))
	mustCreate[*registrationv1.ValidatingWebhookConfiguration](t)(webhooks.ValidatingWebhookConfigurations().Create(
		t.Context(), &registrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "v.example.com", ClientConfig: client("/validate"), Rules: pods, NamespaceSelector: here,
				SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{}))
	eventually(t, "both webhooks are asked", func() bool {
		p, err := c.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "warm-"}, Spec: pod("x").Spec,
		}, metav1.CreateOptions{DryRun: []string{"All"}})
		h.mu.Lock()
		defer h.mu.Unlock()
		return err == nil && p.Labels["mutated"] == "yes" && len(h.seen) > 0
	})
	made := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("good"), metav1.CreateOptions{}))
	if made.Labels["mutated"] != "yes" || !slices.Contains(h.seen, "good mutated=yes") {
		t.Errorf("stored with labels %v; the validating webhook saw %v", made.Labels, h.seen)
	}
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), pod("refused"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) && (err == nil || !strings.Contains(err.Error(),
		`admission webhook "v.example.com" denied the request: not this one`)) {
		t.Errorf("got %v, want the webhook's refusal", err)
	}
	if _, err := c.CoreV1().Pods(ns).Get(t.Context(), "refused", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the refused Pod: %v", err)
	}
}

// A policy in CEL refuses by its own words.
func TestValidatingPolicy(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	policies := c.AdmissionregistrationV1()
	mustCreate[*registrationv1.ValidatingAdmissionPolicy](t)(policies.ValidatingAdmissionPolicies().Create(t.Context(),
		&registrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec: registrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &registrationv1.MatchResources{
					ResourceRules: []registrationv1.NamedRuleWithOperations{
						{RuleWithOperations: registrationv1.RuleWithOperations{
							Operations: []registrationv1.OperationType{registrationv1.Create},
							Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"configmaps"}},
						}}}},
				Validations: []registrationv1.Validation{{Expression: "object.metadata.name != 'wrong'",
					MessageExpression: "'no ' + object.metadata.name"}},
			},
		}, metav1.CreateOptions{}))
	mustCreate[*registrationv1.ValidatingAdmissionPolicyBinding](t)(policies.ValidatingAdmissionPolicyBindings().Create(
		t.Context(), &registrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: ns, ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
				MatchResources: &registrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}},
			},
		}, metav1.CreateOptions{}))
	create := func(name string) error {
		_, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	eventually(t, "the policy refuses", func() bool {
		err := create("wrong")
		return err != nil && strings.Contains(err.Error(), "denied request: no wrong")
	})
	if err := create("right"); err != nil {
		t.Error(err)
	}
}

// excludingPlugin notes the kinds that it is not to be asked about.
type excludingPlugin struct {
	admission.Interface
	excluded []schema.GroupResource
}

func (p *excludingPlugin) SetExcludedAdmissionResources(list []schema.GroupResource) {
	p.excluded = list
}

func (p *excludingPlugin) ValidateInitialization() error { return nil }

// Webhooks and policies are not asked about reviews: one that refuses all would keep everybody from
// asking what they may do.
func TestReviewsAreExcluded(t *testing.T) {
	p := &excludingPlugin{}
	reviewsExcluded{}.Initialize(p)
	want := schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}
	if len(p.excluded) != 6 || !slices.Contains(p.excluded, want) {
		t.Errorf("got %v, want six kinds with %v", p.excluded, want)
	}
}

// A mutating policy in CEL changes what it matches.
func TestMutatingPolicy(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	policies := c.AdmissionregistrationV1()
	mustCreate[*registrationv1.MutatingAdmissionPolicy](t)(policies.MutatingAdmissionPolicies().Create(t.Context(),
		&registrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec: registrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &registrationv1.MatchResources{
					ResourceRules: []registrationv1.NamedRuleWithOperations{
						{RuleWithOperations: registrationv1.RuleWithOperations{
							Operations: []registrationv1.OperationType{registrationv1.Create},
							Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"configmaps"}},
						}}}},
				ReinvocationPolicy: registrationv1.NeverReinvocationPolicy,
				Mutations: []registrationv1.Mutation{{
					PatchType: registrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &registrationv1.ApplyConfiguration{
						Expression: `Object{metadata: Object.metadata{labels: {"policy": object.metadata.name}}}`},
				}},
			},
		}, metav1.CreateOptions{}))
	mustCreate[*registrationv1.MutatingAdmissionPolicyBinding](t)(policies.MutatingAdmissionPolicyBindings().Create(
		t.Context(), &registrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: ns,
				MatchResources: &registrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}},
			},
		}, metav1.CreateOptions{}))
	eventually(t, "the policy labels a ConfigMap", func() bool {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"own": "kept"}}}
		got, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), m, metav1.CreateOptions{DryRun: []string{"All"}})
		return err == nil && got.Labels["policy"] == "m" && got.Labels["own"] == "kept"
	})
}

// row: API-48
func TestVolumeAttachmentStatus(t *testing.T) {
	_, c := shared(t)
	attachments := c.StorageV1().VolumeAttachments()
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "a.example.com", NodeName: "n1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}},
	}
	mustCreate[*storagev1.VolumeAttachment](t)(attachments.Create(t.Context(), a, metav1.CreateOptions{}))
	body := []byte(`{"status":{"attached":true}}`)
	main := mustCreate[*storagev1.VolumeAttachment](t)(attachments.Patch(t.Context(), a.Name, types.MergePatchType,
		body, metav1.PatchOptions{}))
	if main.Status.Attached {
		t.Error("the main endpoint wrote the status")
	}
	got := mustCreate[*storagev1.VolumeAttachment](t)(attachments.Patch(t.Context(), a.Name, types.MergePatchType, body,
		metav1.PatchOptions{}, "status"))
	if !got.Status.Attached {
		t.Error("the status was not written")
	}
}
