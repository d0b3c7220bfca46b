package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gantry-project/gantry/internal/apiserver/orphanedobjects"
)

// A namespace that ends stays until the last name is off spec.finalizers, whichever endpoint is
// written meanwhile; so does what others hold by finalizers, of every kind and through each of its
// endpoints. Through each of them it goes with its last finalizer.
func TestFinalizersHoldThroughEveryEndpoint(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	cfg := s.InProcess(admin())
	d := &traceSession{t: t, url: cfg.Host, client: mustCreate[*http.Client](t)(restclient.HTTPClientFor(cfg))}
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	endpoints := map[string][]string{} // group, version and resource to those that take a merge patch
	for _, l := range lists {
		for _, r := range l.APIResources {
			main, sub, _ := strings.Cut(r.Name, "/")
			if slices.Contains(r.Verbs, "patch") && !slices.Contains(connectResources, sub) && sub != "scale" &&
				sub != "resize" && sub != "ephemeralcontainers" {
				endpoints[l.GroupVersion+"/"+main] = append(endpoints[l.GroupVersion+"/"+main],
					strings.TrimSuffix("/"+sub, "/"))
			}
		}
	}
	known := resources(t, c)
	merge := "application/merge-patch+json"
	for _, line := range someObjects() {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("NS", ns, "x-kinds", "x-held").Replace(line)),
			&obj.Object); err != nil {
			t.Fatal(line, err)
		}
		r := known[obj.GroupVersionKind()]
		list := "/apis/" + obj.GetAPIVersion()
		if r.Group == "" {
			list = "/api/v1"
		}
		if r.Namespaced {
			list += "/namespaces/" + ns
		}
		list += "/" + r.Name
		item := list + "/" + obj.GetName()
		kind := obj.GetKind()
		if kind == "CustomResourceDefinition" {
			continue // its own server takes it apart by a finalizer of its own
		}
		obj.SetFinalizers([]string{"a.b/held"})
		raw, _ := json.Marshal(obj.Object)
		for _, last := range endpoints[obj.GetAPIVersion()+"/"+r.Name] {
			if code, text := d.do(http.MethodPost, list, "application/json", string(raw)); code != http.StatusCreated {
				t.Errorf("%s: got %d %s, want code StatusCreated", list, code, text)
				break
			}
			d.do(http.MethodDelete, item, "application/json", "")
			there := func() bool {
				code, _ := d.do(http.MethodGet, item, "application/json", "")
				return code == http.StatusOK
			}
			holders := func() []string {
				_, text := d.do(http.MethodGet, item, "application/json", "")
				o := &metav1.PartialObjectMetadata{}
				if err := json.Unmarshal([]byte(text), o); err != nil {
					t.Fatal(err)
				}
				return o.Finalizers
			}
			for _, sub := range endpoints[obj.GetAPIVersion()+"/"+r.Name] {
				d.do(http.MethodPatch, item+sub, merge, `{"metadata":{"annotations":{"seen":"`+last+sub+`"}}}`)
				if !there() {
					t.Errorf("%s: a write to %q removed it, though a finalizer holds it", kind, sub)
				}
			}
			code, text := d.do(http.MethodPatch, item+last, merge, `{"metadata":{"finalizers":null}}`)
			switch {
			case kind == "Namespace":
				if !there() {
					t.Errorf("a write to %q removed the namespace, though spec.finalizers holds it", last)
				}
				_, now := d.do(http.MethodGet, item, "application/json", "")
				held := &corev1.Namespace{}
				if err := json.Unmarshal([]byte(now), held); err != nil {
					t.Fatal(err)
				}
				held.Spec.Finalizers = nil
				mustCreate[*corev1.Namespace](t)(c.CoreV1().Namespaces().Finalize(t.Context(), held,
					metav1.UpdateOptions{}))
			case code >= 300:
				t.Errorf("%s: the last finalizer cannot be taken off at %q: %d %s", kind, last, code, text)
			}
			if there() {
				// some status endpoints leave metadata as it is
				if kind != "Pod" && kind != "Namespace" && len(holders()) == 0 {
					t.Errorf("%s: it stays after its last finalizer was taken off at %q", kind, last)
				}
				d.do(http.MethodPatch, item, merge, `{"metadata":{"finalizers":null}}`)
				d.do(http.MethodDelete, item+"?gracePeriodSeconds=0", "application/json", "")
			}
		}
	}
}

// A server removes, when it starts, what lies in namespaces that do not exist, of custom resources
// too: by the API's rules, so that a finalizer holds an object until it is taken off. What lies in
// other namespaces stays.
func TestOrphansAreRemoved(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s, c, _ := startServer(t, cfg)
	ns := newNamespace(t, c)
	dyn := mustCreate[metadata.Interface](t)(metadata.NewForConfig(s.InProcess(admin())))
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	defer etcd.Close()
	send := &traceSession{t: t, url: s.InProcess(admin()).Host,
		client: mustCreate[*http.Client](t)(restclient.HTTPClientFor(s.InProcess(admin())))}
	definition :=
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.x.io"},` +
			`"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"things","singular":"thing",` +
			`"kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,` +
			`"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	if code, text := send.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"application/json", definition); code != http.StatusCreated {
		t.Fatalf("got %v, %v, want code StatusCreated", code, text)
	}
	things := "/apis/x.io/v1/namespaces/" + ns + "/things"
	eventually(t, "custom resources are served", func() bool {
		code, _ := send.do(http.MethodPost, things, "application/json",
			`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"thing"}}`)
		return code == http.StatusCreated
	})
	for _, name := range []string{"plain", "held"} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "held" {
			m.Finalizers = []string{"a.b/c"}
		}
		mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(), m, metav1.CreateOptions{}))
	}
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	bind(t, c, p, "n1")
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stays"}}, metav1.CreateOptions{}))
	a := &orphanedobjects.Cleaner{Etcd: etcd, Discovery: c.Discovery(), Objects: dyn, Prefix: KeyPrefix}
	audit := func() orphanedobjects.Report { return mustCreate[orphanedobjects.Report](t)(a.Clean(t.Context())) }
	if got := audit(); len(got.Groups) != 0 {
		t.Fatalf("orphans of namespaces that exist: got %+v, want no Groups", got)
	}
	// The namespace goes by another hand, as it did while the status endpoint was a copy made too
	// early.
	mustCreate[*clientv3.DeleteResponse](t)(etcd.Delete(t.Context(),
		KeyPrefix(schema.GroupResource{Resource: "namespaces"}, false)+ns))
	want := map[string]orphanedobjects.Outcome{"configmaps": "", "pods": orphanedobjects.Terminating,
		"things.x.io": orphanedobjects.Removed}
	got := audit()
	for _, g := range got.Groups {
		if w := want[g.Resource]; g.Namespace != ns || w != "" && g.Outcome != w || g.Count != 1 {
			t.Errorf("got %+v, want one, in namespace %s, outcome %q", g, ns, w)
		}
	}
	if len(got.Groups) != 4 || !got.HasRemaining() {
		t.Errorf("%+v, want four groups with something left", got.Groups)
	}
	if _, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "plain", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the orphan: %v", err)
	}
	held, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || held.DeletionTimestamp == nil {
		t.Fatalf("the one that a finalizer holds: %+v, %v", held, err)
	}
	held.Finalizers = nil
	if _, err := c.CoreV1().ConfigMaps(ns).Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Errorf("its finalizer cannot be taken off: %v, want no error", err)
	}
	if err := c.CoreV1().Pods(ns).Delete(t.Context(),
		"p", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Error(err)
	}
	if got := audit(); len(got.Groups) != 0 {
		t.Errorf("left: %+v", got)
	}
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("default").Get(t.Context(), "stays", metav1.GetOptions{}))
	// A list of namespaces that lacks those of every cluster is not believed.
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("kube-public").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stays"}}, metav1.CreateOptions{}))
	mustCreate[*clientv3.DeleteResponse](t)(etcd.Delete(t.Context(),
		KeyPrefix(schema.GroupResource{Resource: "namespaces"}, false)+"kube-public"))
	if got, err := a.Clean(t.Context()); err == nil || len(got.Groups) != 0 {
		t.Errorf("without kube-public: %+v, %v", got, err)
	}
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("kube-public").Get(t.Context(),
		"stays", metav1.GetOptions{}))
}

// A server that starts over a store with orphans removes them, and again what is found after a
// namespace went.
func TestAServerThatStartsRemovesOrphans(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s, c, end := startServer(t, cfg)
	ns := newNamespace(t, c)
	mustCreate[*corev1.Secret](t)(c.CoreV1().Secrets(ns).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	mustCreate[*clientv3.DeleteResponse](t)(etcd.Delete(t.Context(),
		KeyPrefix(schema.GroupResource{Resource: "namespaces"}, false)+ns))
	etcd.Close()
	end()
	s, c, _ = startServer(t, cfg)
	eventually(t, "the orphan is gone", func() bool {
		_, err := c.CoreV1().Secrets(ns).Get(t.Context(), "x", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	for key := range stored(t, s) {
		if strings.Contains(key, "/"+ns) {
			t.Errorf("left: %s", key)
		}
	}
}

// The start of tracking tokens in Secrets is recorded; a record that cannot be read is written
// anew, another stays.
func TestLegacyTokenTrackingHasAStartDate(t *testing.T) {
	_, c := shared(t)
	m := mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), tokenTrackingConfigMap,
		metav1.GetOptions{}))
	if _, err := time.Parse(time.DateOnly, m.Data["since"]); err != nil || len(m.Data) != 1 {
		t.Errorf("%v: got %v, want no error and 1 in Data", m.Data, err)
	}
	now := time.Date(2026, 3, 1, 23, 0, 0, 0, time.FixedZone("west", -3*3600))
	for _, tt := range []struct {
		have  map[string]string
		since string
		wrong bool
	}{
		{nil, "2026-03-02", true}, {map[string]string{"since": "soon", "a": "b"}, "2026-03-02", true},
		{map[string]string{"since": "2020-01-01"}, "2020-01-01", false},
	} {
		got, wrong := tokenTrackingData(tt.have, now)
		if got["since"] != tt.since || wrong != tt.wrong || got["a"] != tt.have["a"] {
			t.Errorf("%v: got %v, %t, want got[since] %v, wrong %v and got[a] %v", tt.have, got, wrong, tt.since,
				tt.wrong, tt.have["a"])
		}
	}
}
