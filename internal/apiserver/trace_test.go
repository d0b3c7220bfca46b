package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/journal"
)

// stored is the revision of every key, beside those that a server renews by itself.
func stored(t *testing.T, s *Server) map[string]int64 {
	t.Helper()
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	defer etcd.Close()
	return storedIn(t, etcd)
}

// storedIn is stored by a client that is there.
func storedIn(t *testing.T, etcd *clientv3.Client) map[string]int64 {
	t.Helper()
	got := mustCreate[*clientv3.GetResponse](t)(etcd.Get(t.Context(), store.Prefix+"/", clientv3.WithPrefix(),
		clientv3.WithKeysOnly()))
	out := map[string]int64{}
	for _, kv := range got.Kvs {
		if key := string(kv.Key); !strings.HasPrefix(key, store.Prefix+"/leases/kube-system/apiserver-") &&
			!strings.HasPrefix(key, store.Prefix+"/masterleases/") {
			out[key] = kv.ModRevision
		}
	}
	return out
}

// changedKeys names the keys that differ.
func changedKeys(previous, now map[string]int64) (out []string) {
	for key, revision := range now {
		if previous[key] != revision {
			out = append(out, key)
		}
	}
	for key := range previous {
		if _, ok := now[key]; !ok {
			out = append(out, "gone: "+key)
		}
	}
	return out
}

// traceSession sends dry runs to one server and looks at what they leave.
type traceSession struct {
	t       *testing.T
	etcd    *clientv3.Client
	notes   *memoryJournal
	url     string
	client  *http.Client
	keys    map[string]int64
	worked  map[string]bool   // resource and verb, of which one request was taken
	refused map[string]string // the same, what was said last
}

// call is one request to an endpoint of the resource.
type call struct{ verb, method, path, query, contentType, body string }

func newTraceSession(t *testing.T, s *Server, n *memoryJournal) *traceSession {
	cfg, etcd := s.InProcess(admin()), mustCreate[*clientv3.Client](t)(s.Store().Client())
	t.Cleanup(func() { _ = etcd.Close() })
	return &traceSession{t: t, etcd: etcd, notes: n, url: cfg.Host,
		client: mustCreate[*http.Client](t)(restclient.HTTPClientFor(cfg)),
		keys:   storedIn(t, etcd), worked: map[string]bool{}, refused: map[string]string{}}
}

func (d *traceSession) do(method, path, contentType, body string) (int, string) {
	req := mustCreate[*http.Request](d.t)(http.NewRequestWithContext(d.t.Context(), method, d.url+path,
		bytes.NewReader([]byte(body))))
	req.Header.Set("Content-Type", contentType)
	res := mustCreate[*http.Response](d.t)(d.client.Do(req))
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// send makes the call as a dry run and compares etcd, the journal and the watch cache with what was
// before.
func (d *traceSession) send(resource, item string, c call) {
	d.t.Helper()
	cached := func() string {
		if item == "" {
			return ""
		}
		_, text := d.do(http.MethodGet, item+"?resourceVersion=0", "application/json", "")
		return text
	}
	before, message := cached(), len(d.notes.Read(journal.Query{}))
	query := "dryRun=All&fieldManager=dry"
	if strings.Contains(c.body, `"dryRun"`) {
		query = ""
	}
	code, text := d.do(c.method, c.path+"?"+strings.Trim(query+"&"+c.query, "&"), c.contentType, c.body)
	what := fmt.Sprintf("%s %s %s %s (%d)", c.method, c.path, c.query, c.contentType, code)
	if key := resource + " " + c.verb; code < 300 {
		d.worked[key] = true
	} else {
		d.refused[key] = what + ": " + text
	}
	if now := storedIn(d.t, d.etcd); !maps.Equal(now, d.keys) {
		d.t.Errorf("%s changed %v", what, changedKeys(d.keys, now))
		d.keys = now
	}
	if after := cached(); after != before {
		d.t.Errorf("%s changed what the watch cache holds:\n%s\n%s", what, before, after)
	}
	if n := len(d.notes.Read(journal.Query{})); n != message {
		d.t.Errorf("%s left %d entries in the journal", what, n-message)
	}
}

// object sends every verb of a resource about one object and about one that is not there.
func (d *traceSession) object(r metav1.APIResource, list string, raw []byte) {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &obj.Object); err != nil {
		d.t.Fatal(err)
	}
	item := list + "/" + obj.GetName()
	with := func(change func(o *unstructured.Unstructured)) string {
		o := obj.DeepCopy()
		change(o)
		return string(mustCreate[[]byte](d.t)(o.MarshalJSON()))
	}
	label := `{"metadata":{"labels":{"dry":"run"}}}`
	another := strings.NewReplacer("x-kinds", "z-kinds")
	if obj.GetName() == "x" || obj.GetName() == "x-old" {
		another = strings.NewReplacer(`"name":"x`, `"name":"z`)
	}
	other := another.Replace(string(raw))
	absent := list + "/" + strings.Replace(obj.GetName(), "x", "z", 1)
	now := ""
	eventually(d.t, "the watch cache has "+item, func() bool {
		_, now = d.do(http.MethodGet, item, "application/json", "")
		_, cached := d.do(http.MethodGet, item+"?resourceVersion=0", "application/json", "")
		return now == cached
	})
	current := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(now), &current.Object); err != nil {
		d.t.Fatalf("got %v, %v, want no error", err, now)
	}
	current.SetLabels(map[string]string{"dry": "run"})
	put := string(mustCreate[[]byte](d.t)(current.MarshalJSON()))
	apply := with(func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"dry": "run"}) })
	js := "application/json"
	calls := []call{
		{"create", http.MethodPost, list, "", js, other},
		{"create", http.MethodPost, list, "", js,
			with(func(o *unstructured.Unstructured) { o.SetName(""); o.SetGenerateName("z-") })},
		{"update", http.MethodPut, item, "", js, put},
		{"update", http.MethodPut, list + "/absent", "", js,
			with(func(o *unstructured.Unstructured) { o.SetName("absent") })},
		{"patch", http.MethodPatch, item, "", "application/merge-patch+json", label},
		{"patch", http.MethodPatch, item, "", "application/strategic-merge-patch+json", label},
		{"patch", http.MethodPatch, item, "", "application/json-patch+json",
			`[{"op":"add","path":"/metadata/annotations","value":{"dry":"run"}}]`},
		{"patch", http.MethodPatch, item, "force=true", "application/apply-patch+yaml", apply},
		{"patch", http.MethodPatch, absent, "force=true", "application/apply-patch+yaml", other},
		{"delete", http.MethodDelete, item, "", js, ""},
		{"delete", http.MethodDelete, item, "gracePeriodSeconds=0", js, ""},
		{"delete", http.MethodDelete, item, "", js, `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`},
		{"deletecollection", http.MethodDelete, list, "fieldSelector=metadata.name%3D" + obj.GetName(), js, ""},
	}
	for _, policy := range []string{"Foreground", "Background", "Orphan"} {
		calls = append(calls, call{"delete", http.MethodDelete, item, "propagationPolicy=" + policy, js, ""})
	}
	for _, c := range calls {
		if slices.Contains(r.Verbs, c.verb) {
			d.send(r.Name, item, c)
		}
	}
}

// subresourcePaths are bodies of subresources whose object cannot be read from them; CONNECT
// endpoints are no writes.
var subresourcePaths = map[string]string{
	"pods/binding":             `{"metadata":{"name":"NAME"},"target":{"kind":"Node","name":"n9"}}`,
	"pods/eviction":            `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"NAME"}}`,
	"pods/ephemeralcontainers": `{"spec":{"ephemeralContainers":[{"name":"debug","image":"i"}]}}`,
	"serviceaccounts/token":    `{"spec":{}}`,
	"pods/resize":              `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"20m"}}}]}}`,
	"scale":                    `{"spec":{"replicas":7}}`,
}

// part sends every verb of a subresource.
func (d *traceSession) part(r metav1.APIResource, item string) {
	_, sub, _ := strings.Cut(r.Name, "/")
	path, name := item+"/"+sub, item[strings.LastIndex(item, "/")+1:]
	body := subresourcePaths[r.Name]
	if body == "" {
		body = subresourcePaths[sub]
	}
	if body == "" {
		body = `{"metadata":{"labels":{"dry":"run"}}}`
	}
	body = strings.ReplaceAll(body, "NAME", name)
	for _, verb := range r.Verbs {
		switch verb {
		case "create":
			d.send(r.Name, item, call{verb, http.MethodPost, path, "", "application/json", body})
			if sub == "eviction" {
				inside := strings.TrimSuffix(body, "}") + `,"deleteOptions":{"dryRun":["All"],"gracePeriodSeconds":3}}`
				d.send(r.Name, item, call{verb, http.MethodPost, path, "", "application/json", inside})
			}
		case "update":
			from := path
			if !slices.Contains(r.Verbs, "get") {
				from = item
			}
			if _, now := d.do(http.MethodGet, from, "application/json", ""); now != "" {
				d.send(r.Name, item, call{verb, http.MethodPut, path, "", "application/json", now})
			}
		case "patch":
			d.send(r.Name, item, call{verb, http.MethodPatch, path, "", "application/merge-patch+json", body})
		}
	}
}

// connectResources are subresources that carry conversations.
var connectResources = []string{"attach", "exec", "log", "portforward", "proxy"}

// A dry run of any verb on any served resource and subresource changes no key in etcd, nothing that
// the watch cache holds and nothing in the journal, and gives no address and no port away.
func TestADryRunLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dryRuns(t, testConfig(t.TempDir()), func(kubernetes.Interface, string) {})
}

// dryRuns sends the dry runs to a server of the configuration; before puts further objects into the
// namespace.
func dryRuns(t *testing.T, cfg Config, before func(c kubernetes.Interface, ns string)) {
	n := &memoryJournal{}
	cfg.Journal = Journal{Sink: n, Reader: n, Appender: n}
	cfg.Services.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/28")}
	cfg.Services.NodePortLow, cfg.Services.NodePortHigh = 30000, 30003
	s, c, _ := startServer(t, cfg)
	ns := newNamespace(t, c)
	known, parts := resources(t, c), map[string][]metav1.APIResource{}
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		for _, r := range l.APIResources {
			if main, sub, ok := strings.Cut(r.Name, "/"); ok && !slices.Contains(connectResources, sub) {
				parts[l.GroupVersion+"/"+main] = append(parts[l.GroupVersion+"/"+main], r)
			}
		}
	}
	before(c, ns)
	running(t, c, ns)
	log, stop := dryRunLog.use()
	defer stop()
	d := newTraceSession(t, s, n)
	d.waitUntilIdle("Namespace") // what the server writes after its start
	for _, line := range someObjects() {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(line, "NS", ns)), &obj.Object); err != nil {
			t.Fatal(line, err)
		}
		r, ok := known[obj.GroupVersionKind()]
		if !ok {
			continue
		}
		list := "/apis/" + obj.GetAPIVersion()
		if r.Group == "" {
			list = "/api/v1"
		}
		if r.Namespaced {
			list += "/namespaces/" + ns
		}
		list += "/" + r.Name
		raw := mustCreate[[]byte](t)(obj.MarshalJSON())
		if code, text := d.do(http.MethodPost, list, "application/json", string(raw)); code != http.StatusCreated {
			t.Errorf("%s: got %d %s, want code StatusCreated", list, code, text)
			continue
		}
		d.waitUntilIdle(obj.GetKind())
		d.object(r, list, raw)
		for _, p := range parts[obj.GetAPIVersion()+"/"+r.Name] {
			d.part(p, list+"/"+obj.GetName())
			if r.Name == "pods" {
				d.part(p, list+"/free")
				d.part(p, list+"/guarded")
				d.part(p, list+"/refused")
			}
		}
		if code, text := d.do(http.MethodDelete, list+"/"+obj.GetName()+"?gracePeriodSeconds=0", "application/json",
			""); code >= 300 {
			t.Errorf("delete %s: got %d %s, want less than 300", list, code, text)
		}
		d.waitUntilIdle(obj.GetKind())
	}
	d.journal(ns)
	d.reviews(lists, ns)
	for key, why := range d.refused {
		if !d.worked[key] {
			t.Errorf("%s: no dry run was taken: %s", key, why)
		}
	}
	d.gives(c, ns)
	klog.Flush()
	log.mu.Lock()
	defer log.mu.Unlock()
	for line := range strings.Lines(log.text.String()) {
		if strings.Contains(line, "SHOULD NOT HAPPEN") {
			t.Errorf("logged: got %s, want it free of %q", line, "SHOULD NOT HAPPEN")
		}
	}
}

// sharedLog is the log of the process for tests that run at once: it is kept while one of them
// does.
type sharedLog struct {
	mu    sync.Mutex
	users int
	log   *logBuffer
}

var dryRunLog sharedLog

// use returns the log, and what ends its use.
func (l *sharedLog) use() (log *logBuffer, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users++; l.users == 1 {
		l.log = &logBuffer{}
		klog.SetOutput(l.log)
	}
	return l.log, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.users--; l.users == 0 {
			klog.SetOutput(discard{})
		}
	}
}

// busyResources are kinds after whose writes the server writes by itself.
var busyResources = []string{"CustomResourceDefinition", "APIService", "StorageVersionMigration", "ServiceCIDR",
	"Service", "Namespace", "FlowSchema", "PriorityLevelConfiguration"}

// waitUntilIdle takes what is stored now as the start; after writes of busy kinds it waits until
// nothing was written for a second.
func (d *traceSession) waitUntilIdle(kind string) {
	d.keys = storedIn(d.t, d.etcd)
	for quiet := 0; quiet < 10 && slices.Contains(busyResources, kind); quiet++ {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-d.t.Context().Done():
			return
		}
		if now := storedIn(d.t, d.etcd); !maps.Equal(now, d.keys) {
			d.keys, quiet = now, 0
		}
	}
}

// journal sends a batch of entries.
func (d *traceSession) journal(ns string) {
	body := fmt.Sprintf(
		`{"apiVersion":"journal.gantry.dev/v1alpha1","kind":"PodJournal","metadata":{"name":"p"},`+
			`"entries":[{"by":"kubelet","ref":{"namespace":%q,"name":"p"},"kind":"Waiting","fact":{}}]}`, ns)
	d.send("podjournals", "",
		call{"create", http.MethodPost, "/apis/journal.gantry.dev/v1alpha1/namespaces/" + ns + "/podjournals", "",
			"application/json", body})
}

// running makes Pods that run: one without a budget, one whose budget allows to evict it and one
// whose budget does not.
func running(t *testing.T, c kubernetes.Interface, ns string) {
	t.Helper()
	for _, name := range []string{"free", "guarded", "refused"} {
		p := pod(name)
		p.Labels = map[string]string{"is": name}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		p = mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}))
		bind(t, c, p, "n1")
		patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
		mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Patch(t.Context(), name, "application/merge-patch+json",
			[]byte(patch), metav1.PatchOptions{}, "status"))
		if name == "free" {
			continue
		}
		one := intstr.FromInt32(1)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"is": name}},
			}}
		b = mustCreate[*policyv1.PodDisruptionBudget](t)(c.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), b,
			metav1.CreateOptions{}))
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 1,
			DesiredHealthy: 1, ExpectedPods: 1}
		if name == "guarded" {
			b.Status.DisruptionsAllowed = 1
		}
		mustCreate[*policyv1.PodDisruptionBudget](t)(c.PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(t.Context(), b,
			metav1.UpdateOptions{}))
	}
}

// gives makes more Services as dry runs than there are addresses and ports; after that real ones
// still find some.
func (d *traceSession) gives(c kubernetes.Interface, ns string) {
	d.t.Helper()
	all := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for i := range 40 {
		s := newService(fmt.Sprintf("dry-%d", i))
		s.Spec.Type = corev1.ServiceTypeNodePort
		if i == 0 {
			s.Spec.ClusterIP = "10.96.0.9"
			s.Spec.Ports[0].NodePort = 30002
		}
		if _, err := c.CoreV1().Services(ns).Create(d.t.Context(), s, all); err != nil {
			d.t.Fatalf("dry run %d: %v, want no error", i, err)
		}
	}
	for i := range 4 {
		s := newService(fmt.Sprintf("real-%d", i))
		s.Spec.Type = corev1.ServiceTypeNodePort
		if i == 0 {
			s.Spec.ClusterIP = "10.96.0.9"
			s.Spec.Ports[0].NodePort = 30002
		}
		if _, err := c.CoreV1().Services(ns).Create(d.t.Context(), s, metav1.CreateOptions{}); err != nil {
			d.t.Errorf("after dry runs: %v, want no error", err)
		}
	}
}
