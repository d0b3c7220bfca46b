package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"sigs.k8s.io/yaml"
)

const gaugeDefinition = `
metadata: {name: gauges.turned.example.com}
spec:
  group: turned.example.com
  scope: Namespaced
  names: {plural: gauges, singular: gauge, kind: Gauge}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {url: %q, caBundle: %q}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.colour}]
    subresources: {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size,
      labelSelectorPath: .status.selector}, status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {colour: {type: string}, size: {type: integer}}},
      status: {type: object, properties: {size: {type: integer}, selector: {type: string}}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {hue: {type: string},
      size: {type: integer}}}}}}
`

// conversionHandler is a conversion webhook: what v1 calls colour is hue in v2. It refuses objects
// that are named "stuck".
func conversionHandler(w http.ResponseWriter, req *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
		Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var o unstructured.Unstructured
		if err := json.Unmarshal(raw.Raw, &o.Object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if o.GetName() == "stuck" {
			out.Result = metav1.Status{Status: metav1.StatusFailure, Message: "it does not turn"}
			out.ConvertedObjects = nil
			break
		}
		from, to := "colour", "hue"
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			from, to = to, from
		}
		if spec, ok := o.Object["spec"].(map[string]any); ok && spec[from] != nil {
			spec[to] = spec[from]
			delete(spec, from)
		}
		o.SetAPIVersion(review.Request.DesiredAPIVersion)
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Object: &o})
	}
	review.Request, review.Response = nil, out
	_ = json.NewEncoder(w).Encode(review)
}

// A kind of two versions is turned by its webhook both ways, is found by its selectable fields, and
// scales.
func TestCustomKindOfTwoVersions(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	hook := httptest.NewTLSServer(http.HandlerFunc(conversionHandler))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, gaugeDefinition, hook.URL, base64.StdEncoding.EncodeToString(ca)),
		crd); err != nil {
		t.Fatal(err)
	}
	definitions := apiextensions.NewForConfigOrDie(s.InProcess(admin())).ApiextensionsV1().CustomResourceDefinitions()
	mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(definitions.Create(t.Context(), crd,
		metav1.CreateOptions{}))
	defer func() { _ = definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}) }()
	objects := dynamic.NewForConfigOrDie(s.InProcess(admin()))
	in := func(version string) dynamic.ResourceInterface {
		return objects.Resource(schema.GroupVersionResource{Group: "turned.example.com", Version: version,
			Resource: "gauges"}).Namespace(ns)
	}
	put := func(version, name, field, value string) error {
		_, err := in(version).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "turned.example.com/" + version, "kind": "Gauge", "metadata": map[string]any{"name": name},
			"spec": map[string]any{field: value, "size": int64(2)},
		}}, metav1.CreateOptions{})
		return err
	}
	eventually(t, "the kind is served", func() bool {
		err := put("v1", "one", "colour", "red")
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	if err := put("v2", "two", "hue", "blue"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ version, name, field, want string }{{"v2", "one", "hue", "red"},
		{"v1", "two", "colour", "blue"}, {"v2", "two", "hue", "blue"}} {
		got := mustCreate[*unstructured.Unstructured](t)(in(tt.version).Get(t.Context(), tt.name, metav1.GetOptions{}))
		if value, _, _ := unstructured.NestedString(got.Object, "spec", tt.field); value != tt.want {
			t.Errorf("%s of %s in %s: %q, want %q", tt.field, tt.name, tt.version, value, tt.want)
		}
	}
	red := mustCreate[*unstructured.UnstructuredList](t)(in("v1").List(t.Context(),
		metav1.ListOptions{FieldSelector: "spec.colour=red"}))
	if len(red.Items) != 1 || red.Items[0].GetName() != "one" {
		t.Errorf("by colour: %v", red.Items)
	}
	if _, err := in("v1").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.size=2"}); !apierrors.IsBadRequest(
		err) {
		t.Errorf("by a field that is not selectable: %v", err)
	}
	mustCreate[*unstructured.Unstructured](t)(in("v1").Patch(t.Context(), "one", types.MergePatchType,
		[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale"))
	mustCreate[*unstructured.Unstructured](t)(in("v1").Patch(t.Context(), "one", types.MergePatchType,
		[]byte(`{"status":{"size":4,"selector":"a=b"}}`), metav1.PatchOptions{}, "status"))
	scale := mustCreate[*unstructured.Unstructured](t)(in("v1").Get(t.Context(), "one", metav1.GetOptions{}, "scale"))
	for want, path := range map[any][]string{int64(5): {"spec", "replicas"}, int64(4): {"status", "replicas"},
		"a=b": {"status", "selector"}} {
		if got, _, _ := unstructured.NestedFieldNoCopy(scale.Object, path...); got != want ||
			scale.GetKind() != "Scale" {
			t.Errorf("%s %s: %v, want %v", scale.GetKind(), strings.Join(path, "."), got, want)
		}
	}
	if err := put("v2", "stuck", "hue", "red"); err == nil || !strings.Contains(err.Error(), "it does not turn") {
		t.Errorf("what the webhook refuses: %v", err)
	}
}

// A group version whose server is away is answered 503, its APIService says why, and the rest of
// discovery stays whole.
func TestAggregatedServerIsAway(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	services := aggregatorclient.NewForConfigOrDie(s.InProcess(admin())).ApiregistrationV1().APIServices()
	mustCreate[*apiregistrationv1.APIService](t)(services.Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.away.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "away.example.com", Version: "v1", GroupPriorityMinimum: 10, VersionPriority: 10,
			InsecureSkipTLSVerify: true,
			Service:               &apiregistrationv1.ServiceReference{Namespace: ns, Name: "nobody"},
		},
	}, metav1.CreateOptions{}))
	defer func() { _ = services.Delete(t.Context(), "v1.away.example.com", metav1.DeleteOptions{}) }()
	eventually(t, "the condition says what is missing", func() bool {
		got := mustCreate[*apiregistrationv1.APIService](t)(services.Get(t.Context(), "v1.away.example.com",
			metav1.GetOptions{}))
		for _, d := range got.Status.Conditions {
			if d.Type == apiregistrationv1.Available {
				return d.Status == apiregistrationv1.ConditionFalse && d.Reason == "ServiceNotFound"
			}
		}
		return false
	})
	eventually(t, "requests are answered 503", func() bool {
		err := c.Discovery().RESTClient().Get().AbsPath("/apis/away.example.com/v1/things").Do(t.Context()).Error()
		return apierrors.IsServiceUnavailable(err)
	})
	if l, err := c.Discovery().ServerResourcesForGroupVersion("apps/v1"); err != nil || len(l.APIResources) == 0 {
		t.Errorf("the rest of discovery: %v", err)
	}
}
