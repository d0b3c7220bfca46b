package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// firstThenSecond is two webhooks: /first notes in the label "first" whether the label "second" is
// there (after) or not (before), /second puts that one.
func firstThenSecond(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	var o corev1.ConfigMap
	if json.NewDecoder(req.Body).Decode(&review) != nil || json.Unmarshal(review.Request.Object.Raw, &o) != nil {
		http.Error(w, "not a review of a ConfigMap", http.StatusBadRequest)
		return
	}
	name, value := "second", "yes"
	if req.URL.Path == "/first" {
		name, value = "first", "before"
		if o.Labels["second"] != "" {
			value = "after"
		}
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch),
		Patch: []byte(`[{"op":"add","path":"/metadata/labels/` + name + `","value":"` + value + `"}]`),
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// Who mutates first is asked again when somebody later changed the object and it wants to be, and
// not otherwise: webhooks and policies alike.
func TestReinvocation(t *testing.T) {
	_, c := shared(t)
	hook := httptest.NewTLSServer(http.HandlerFunc(firstThenSecond))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	for _, by := range []struct {
		name string
		put  func(t *testing.T, c kubernetes.Interface, ns string, again bool)
	}{
		{"webhooks", func(t *testing.T, c kubernetes.Interface, ns string, again bool) {
			webhook := func(name string, p registrationv1.ReinvocationPolicyType) registrationv1.MutatingWebhook {
				return registrationv1.MutatingWebhook{
					Name: name + ".example.com",
					ClientConfig: registrationv1.WebhookClientConfig{URL: new(hook.URL + "/" + name),
						CABundle: ca},
					Rules:             []registrationv1.RuleWithOperations{newConfigMaps()},
					NamespaceSelector: inNamespace(ns), ReinvocationPolicy: &p,
					SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				}
			}
			mustCreate[*registrationv1.MutatingWebhookConfiguration](t)(
				c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
					&registrationv1.MutatingWebhookConfiguration{
						ObjectMeta: metav1.ObjectMeta{Name: ns},
						Webhooks: []registrationv1.MutatingWebhook{webhook("first", reinvocation(again)),
							webhook("second", registrationv1.NeverReinvocationPolicy)},
					}, metav1.CreateOptions{}))
		}},
		{"policies", func(t *testing.T, c kubernetes.Interface, ns string, again bool) {
			labelBy(t, c, ns, "first", `has(object.metadata.labels.second) ? "after" : "before"`, reinvocation(again))
			labelBy(t, c, ns, "second", `has(object.metadata.labels.first) ? "after" : "before"`,
				registrationv1.NeverReinvocationPolicy)
		}},
	} {
		for want, again := range map[string]bool{"after": true, "before": false} {
			t.Run(by.name+"/"+want, func(t *testing.T) {
				ns := newNamespace(t, c)
				by.put(t, c, ns, again)
				var got map[string]string
				eventually(t, "both mutate", func() bool {
					m := mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(),
						&corev1.ConfigMap{
							ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"own": "kept"}},
						}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
					got = m.Labels
					return got["first"] != "" && got["second"] != ""
				})
				if inOrder := by.name == "webhooks" || want == "after"; got["first"] != want &&
					(inOrder || got["second"] != "before") {
					t.Errorf("the first saw the object %s the second, the second %s the first; want %s", got["first"],
						got["second"], want)
				}
			})
		}
	}
}

func reinvocation(again bool) registrationv1.ReinvocationPolicyType {
	if again {
		return registrationv1.IfNeededReinvocationPolicy
	}
	return registrationv1.NeverReinvocationPolicy
}

func newConfigMaps() registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"configmaps"}},
	}
}

func inNamespace(ns string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
}

// labelBy makes a mutating policy that puts a label on the ConfigMaps of a namespace; policies are
// asked in any order.
func labelBy(t *testing.T, c kubernetes.Interface, ns, label, value string,
	again registrationv1.ReinvocationPolicyType) {
	t.Helper()
	policies, meta := c.AdmissionregistrationV1(), metav1.ObjectMeta{Name: ns + "-" + label}
	mustCreate[*registrationv1.MutatingAdmissionPolicy](t)(policies.MutatingAdmissionPolicies().Create(t.Context(),
		&registrationv1.MutatingAdmissionPolicy{
			ObjectMeta: meta,
			Spec: registrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &registrationv1.MatchResources{
					ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: newConfigMaps()}}},
				ReinvocationPolicy: again,
				Mutations: []registrationv1.Mutation{{
					PatchType: registrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &registrationv1.ApplyConfiguration{
						Expression: `Object{metadata: Object.metadata{labels: {"` + label + `": ` + value + `}}}`},
				}},
			},
		}, metav1.CreateOptions{}))
	mustCreate[*registrationv1.MutatingAdmissionPolicyBinding](t)(policies.MutatingAdmissionPolicyBindings().Create(
		t.Context(), &registrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: meta,
			Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name,
				MatchResources: &registrationv1.MatchResources{NamespaceSelector: inNamespace(ns)}},
		}, metav1.CreateOptions{}))
}
