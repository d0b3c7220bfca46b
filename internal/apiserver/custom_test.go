package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/expect"
)

const fooDefinition = `
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, singular: foo, kind: Foo, shortNames: [fo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: string, default: big, description: How big it is.}}
            x-kubernetes-validations: [{rule: "self.size != 'wrong'", message: must not be wrong}]
          status: {type: object, properties: {seen: {type: boolean}}}
`

// eventually polls until ok returns true; what describes it.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	expect.Eventually(t, what, ok)
}

func TestCustomResources(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(fooDefinition), crd); err != nil {
		t.Fatal(err)
	}
	ext := apiextensions.NewForConfigOrDie(s.InProcess(admin())).ApiextensionsV1().CustomResourceDefinitions()
	mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(ext.Create(t.Context(), crd, metav1.CreateOptions{}))
	foos := dynamic.NewForConfigOrDie(s.InProcess(admin())).Resource(schema.GroupVersionResource{Group: "example.com",
		Version: "v1", Resource: "foos"}).Namespace(ns)
	foo := func(name, size string) *unstructured.Unstructured {
		spec := map[string]any{}
		if size != "" {
			spec["size"] = size
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Foo",
			"metadata": map[string]any{"name": name}, "spec": spec}}
	}
	eventually(t, "the kind is served", func() bool {
		_, err := foos.Create(t.Context(), foo("a", ""), metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	got := mustCreate[*unstructured.Unstructured](t)(foos.Get(t.Context(), "a", metav1.GetOptions{}))
	if size, _, _ := unstructured.NestedString(got.Object, "spec", "size"); size != "big" {
		t.Errorf("default not set: %v", got.Object)
	}
	_, err := foos.Create(t.Context(), foo("b", "wrong"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must not be wrong") {
		t.Errorf("rule: %v", err)
	}
	eventually(t, "discovery lists the kind", func() bool {
		l, err := c.Discovery().ServerResourcesForGroupVersion("example.com/v1")
		return err == nil && len(l.APIResources) == 2
	})
	eventually(t, "OpenAPI describes the kind", func() bool {
		raw, err := c.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/example.com/v1").DoRaw(t.Context())
		return err == nil && strings.Contains(string(raw), "How big it is.")
	})
	if err := ext.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kind is gone", func() bool {
		_, err := foos.Get(t.Context(), "a", metav1.GetOptions{})
		_, gone := ext.Get(t.Context(), crd.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(gone)
	})
}

// TestUnreadDefinitionsAreDeletedAtOnce: definitions whose objects nobody has read or written are
// gone soon after their deletion, whose controller is then the first to list their objects.
func TestUnreadDefinitionsAreDeletedAtOnce(t *testing.T) {
	s, _ := shared(t)
	ext := apiextensions.NewForConfigOrDie(s.InProcess(admin())).ApiextensionsV1().CustomResourceDefinitions()
	const label = "test=unread-definitions"
	established := func(n int) func() bool {
		return func() bool {
			list, err := ext.List(t.Context(), metav1.ListOptions{LabelSelector: label})
			if err != nil {
				t.Fatal(err)
			}
			ready := 0
			for i := range list.Items {
				if apihelpers.IsCRDConditionTrue(&list.Items[i], apiextensionsv1.Established) {
					ready++
				}
			}
			return ready == n && len(list.Items) == n
		}
	}
	for i := range 20 {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		text := strings.NewReplacer("foo", fmt.Sprintf("unread%d", i), "Foo", fmt.Sprintf("Unread%d", i), "[fo]", "[]").
			Replace(fooDefinition)
		if err := yaml.Unmarshal([]byte(text), crd); err != nil {
			t.Fatal(err)
		}
		crd.Labels = map[string]string{"test": "unread-definitions"}
		mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(ext.Create(t.Context(), crd, metav1.CreateOptions{}))
	}
	eventually(t, "20 kinds are established", established(20))
	err := ext.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definitions are gone", established(0))
}

// Both OpenAPI documents come, and name no internal type.
func TestOpenAPI(t *testing.T) {
	_, c := shared(t)
	client := c.Discovery().RESTClient()
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	raw := mustCreate[[]byte](t)(client.Get().AbsPath("/openapi/v3").DoRaw(t.Context()))
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	for path, part := range map[string]string{"api/v1": "io.k8s.api.core.v1.Pod",
		"apis/apps/v1": "io.k8s.api.apps.v1.Deployment", "apis/apiextensions.k8s.io/v1": "CustomResourceDefinition"} {
		doc, err := client.Get().RequestURI(index.Paths[path].ServerRelativeURL).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(doc), part) || strings.Contains(string(doc), "__internal") {
			t.Errorf("%s: %d bytes, %v", path, len(doc), err)
		}
	}
	old := mustCreate[[]byte](t)(client.Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(
		t.Context()))
	if !strings.Contains(string(old), "io.k8s.api.core.v1.Pod") || strings.Contains(string(old), "__internal") {
		t.Errorf("openapi/v2: %d bytes", len(old))
	}
}

const looseDefinition = `
metadata: {name: looses.loose.example.com}
spec:
  group: loose.example.com
  scope: Namespaced
  names: {plural: looses, singular: loose, kind: Loose}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              known: {type: string, default: set}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {typed: {type: integer}}}
              closed: {type: object, properties: {a: {type: string}}}
              pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              list: {type: array, items: {type: object, properties: {id: {type: string, default: unnamed}}}}
          status: {type: object, properties: {seen: {type: boolean}}}
`

// What a schema does not know is cut off unless it says otherwise, what it has defaults for is
// filled in, deep inside as well, also for objects that were stored before a default was there; the
// status is written apart.
func TestCustomObjectsArePruned(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(looseDefinition), crd); err != nil {
		t.Fatal(err)
	}
	ext := apiextensions.NewForConfigOrDie(s.InProcess(admin())).ApiextensionsV1().CustomResourceDefinitions()
	mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(ext.Create(t.Context(), crd, metav1.CreateOptions{}))
	defer func() { _ = ext.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}) }()
	looses := dynamic.NewForConfigOrDie(s.InProcess(admin())).Resource(
		schema.GroupVersionResource{Group: "loose.example.com", Version: "v1", Resource: "looses"}).Namespace(ns)
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{apiVersion: loose.example.com/v1, kind: Loose, "+text+"}"), &u.Object); err !=
			nil {
			t.Fatal(err)
		}
		return u
	}
	ignore := metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore}
	eventually(t, "the kind is served", func() bool {
		_, err := looses.Create(t.Context(), read(`metadata: {name: first}`), ignore)
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	// fields are spec and status as JSON.
	fields := func(u *unstructured.Unstructured) string {
		raw := mustCreate[[]byte](t)(
			json.Marshal(map[string]any{"spec": u.Object["spec"], "status": u.Object["status"]}))
		return string(raw)
	}
	sent := read(
		`metadata: {name: a}, top: 1, status: {seen: true}, spec: {odd: 1, port: 80, free: {x: {z: 1}, typed: 2},
		closed: {a: b, c: d}, list: [{odd: 1}, {id: own}],
		pod: {apiVersion: v1, kind: Pod, metadata: {name: p, odd: 1}, spec: {anything: 1}}}`)
	const want = `{"spec":{"closed":{"a":"b"},"free":{"typed":2,"x":{"z":1}},"known":"set","list":[{"id":"unnamed"},` +
		`{"id":"own"}],` +
		`"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"anything":1}},"port":80},"status":null}`
	made := mustCreate[*unstructured.Unstructured](t)(looses.Create(t.Context(), sent, ignore))
	if got := fields(made); got != want || made.Object["top"] != nil {
		t.Errorf("stored\n%s\nwant\n%s", got, want)
	}
	_, err := looses.Create(t.Context(), read(`metadata: {name: b}, spec: {odd: 1, closed: {c: d}}`),
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(),
		`unknown field "spec.closed.c", unknown field "spec.odd"`) {
		t.Errorf("strictly: %v", err)
	}
	for text, want := range map[string]string{
		`spec: {free: {typed: a}}`: `spec.free.typed: Invalid value: "string": spec.free.typed in body must be of ` +
			`type integer: "string"`,
		`spec: {port: [1]}`: `spec.port: Invalid value: "array": spec.port in body must be of type integer,` +
			`string: "array"`,
		`spec: {pod: {kind: Pod}}`: `spec.pod.apiVersion: Required value`,
	} {
		if _, err := looses.Create(t.Context(), read(`metadata: {name: c}, `+text), ignore); !apierrors.IsInvalid(
			err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
	made.Object["status"] = map[string]any{"seen": true, "odd": 1}
	made.Object["spec"] = map[string]any{"known": "other"}
	seen := mustCreate[*unstructured.Unstructured](t)(looses.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))
	if got, want := fields(seen), strings.Replace(want, `"status":null`, `"status":{"seen":true}`, 1); got != want ||
		seen.GetGeneration() != 1 {
		t.Errorf("after its status was written: generation %d\n%s\nwant\n%s", seen.GetGeneration(), got, want)
	}
	mustCreate[*apiextensionsv1.CustomResourceDefinition](t)(ext.Patch(t.Context(), crd.Name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/default",`+
			`"value":{"closed":{"a":"late"}}}]`), metav1.PatchOptions{}))
	eventually(t, "an object of before has the new default", func() bool {
		got, err := looses.Get(t.Context(), "first", metav1.GetOptions{})
		return err == nil && fields(got) == `{"spec":{"closed":{"a":"late"},"known":"set"},"status":null}`
	})
}
