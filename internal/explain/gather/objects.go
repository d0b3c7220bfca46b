package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
)

// readers is how many kinds are read at once.
const readers = 8

// objectsAsk says what to read for findings.
type objectsAsk struct {
	now       time.Time
	namespace string   // empty: all
	kind      string   // a kind to read though it is rare; empty: none
	row       *kindRow // one to read that is none of kindRows; nil: none
	all       bool     // rare kinds too
	demand    demand
}

// readObjects reads what an object may depend on, each kind as far as the caller may see it. Of
// Secrets only keys and the certificates of type kubernetes.io/tls are kept.
func readObjects(ctx context.Context, r *reader, around *explain.ClusterContext, ask objectsAsk) *finding.Cluster {
	c := &finding.Cluster{Now: ask.now, Namespace: ask.namespace}
	var mu sync.Mutex
	var wait sync.WaitGroup
	free := make(chan struct{}, readers)
	read := func(kind string, list func(*reader) ([]metav1.Object, bool)) {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			own := &reader{client: r.client}
			found, ok := list(own)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				c.Add(kind, found...)
			}
			for _, text := range own.unread {
				if !slices.Contains(r.unread, text) {
					r.unread = append(r.unread, text)
				}
			}
		})
	}
	rows := kindRows()
	if ask.row != nil {
		rows = append(rows, *ask.row)
	}
	for _, row := range rows {
		asked := row.kind == ask.kind || slices.Contains(needs[ask.kind], row.kind)
		if (row.scope == rare || row.scope == inside) && !ask.all && !asked || !asked && !ask.demand.wants(row.kind) {
			continue
		}
		if row.kind == "Node" && around != nil {
			continue // they are there
		}
		read(row.kind, func(own *reader) ([]metav1.Object, bool) {
			l, err := row.list(ctx, own.client, ask.namespace, metav1.ListOptions{ResourceVersion: "0"})
			if !own.seen(row.kind, err) {
				return nil, false
			}
			return stripped(extracted(l)), true
		})
	}
	leases := []string{metav1.NamespaceSystem}
	if ask.all || ask.kind == "Node" || around == nil || !allReady(around.Nodes) {
		leases = append(leases, corev1.NamespaceNodeLease) // they tell of silent nodes
	}
	for _, ns := range leases {
		read("Lease", func(own *reader) ([]metav1.Object, bool) {
			l, err := own.client.CoordinationV1().Leases(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if !own.seen("leases", err) {
				return nil, false
			}
			return extracted(l), true
		})
	}
	events, err := r.client.CoreV1().Events(ask.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String()})
	wait.Wait()
	if r.seen("events", err) {
		c.Events = events.Items
	}
	if around != nil {
		c.Add("Node", objectsOf(around.Nodes)...)
		c.Add("Pod")
		for _, p := range around.Pods {
			if ask.namespace == "" || p.Namespace == ask.namespace {
				c.Add("Pod", p)
			} else {
				c.Others = append(c.Others, p)
			}
		}
	}
	addInstances(ctx, r, c, ask.kind)
	if ask.all || ask.demand.storage && hasSources(c) || slices.Contains(aboutAPI, ask.kind) {
		c.Served, c.Unscoped = readServed(r)
	}
	return c
}

// hasSources reports whether a claim is to be filled from an object of another API group.
func hasSources(c *finding.Cluster) bool {
	return slices.ContainsFunc(c.Objects["PersistentVolumeClaim"], func(o metav1.Object) bool {
		p, ok := o.(*corev1.PersistentVolumeClaim)
		return ok && p.Status.Phase == corev1.ClaimPending && p.Spec.DataSource != nil &&
			p.Spec.DataSource.APIGroup != nil && *p.Spec.DataSource.APIGroup != ""
	})
}

// aboutAPI are kinds whose objects name resources of the API.
var aboutAPI = []string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PersistentVolumeClaim",
	"HorizontalPodAutoscaler", "FlowSchema"}

// readServed reads what the API serves, and what of it is in no namespace; nil when a group could
// not be read.
func readServed(r *reader) (all, unscoped finding.Served) {
	_, lists, err := r.client.Discovery().ServerGroupsAndResources()
	if !r.seen("discovery", err) {
		return nil, nil
	}
	all, unscoped = finding.Served{}, finding.Served{}
	for _, l := range lists {
		group, _, ok := strings.Cut(l.GroupVersion, "/")
		if !ok {
			group = ""
		}
		for _, x := range l.APIResources {
			all[group] = append(all[group], x.Name)
			if !x.Namespaced {
				unscoped[group] = append(unscoped[group], x.Name)
			}
		}
	}
	return all, unscoped
}

// objectsOf are objects of a type as objects of any.
func objectsOf[T metav1.Object](list []T) []metav1.Object {
	var out []metav1.Object
	for _, x := range list {
		out = append(out, x)
	}
	return out
}

// extracted returns the objects of a list.
func extracted(l any) []metav1.Object {
	list, ok := l.(runtime.Object)
	if !ok {
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil
	}
	var out []metav1.Object
	for _, x := range items {
		if o, ok := x.(metav1.Object); ok {
			out = append(out, o)
		}
	}
	return out
}

// stripped takes the values of Secrets away. A TLS certificate is public and stays; of credentials
// for registries the hosts stay, and of a single line that it has a line's end.
func stripped(list []metav1.Object) []metav1.Object {
	for _, o := range list {
		s, ok := o.(*corev1.Secret)
		if !ok {
			continue
		}
		for k := range s.Data {
			if s.Type != corev1.SecretTypeTLS || k != corev1.TLSCertKey {
				s.Data[k] = remains(s, k)
			}
		}
	}
	return list
}

// remains is what is kept of a value of a Secret.
func remains(s *corev1.Secret, key string) []byte {
	value := s.Data[key]
	if key == corev1.DockerConfigJsonKey && s.Type == corev1.SecretTypeDockerConfigJson {
		var config struct {
			Auths map[string]struct{} `json:"auths"`
		}
		if json.Unmarshal(value, &config) != nil {
			return nil
		}
		raw, err := json.Marshal(config)
		if err != nil {
			return nil
		}
		return raw
	}
	if len(value) > 1 && bytes.IndexByte(value, '\n') == len(value)-1 {
		return []byte(finding.OneLine)
	}
	return nil
}

// maxUnknown bounds what is asked for by name for one answer.
const maxUnknown = 8

// readUnknown asks by name for what the object names in namespaces that were not read.
func readUnknown(ctx context.Context, r *reader, c *finding.Cluster, self finding.Object) {
	for i, o := range c.Unknown(self) {
		row, ok := rowOf(o.Kind)
		if !ok || i == maxUnknown {
			continue
		}
		l, err := row.list(ctx, r.client, o.Namespace, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(
			"metadata.name", o.Name).String()})
		if !r.seen(row.kind, err) {
			continue
		}
		for _, x := range stripped(extracted(l)) {
			if x.GetName() == o.Name && x.GetNamespace() == o.Namespace {
				c.Add(row.kind, x)
			}
		}
		if c.Asked == nil {
			c.Asked = map[finding.Object]bool{}
		}
		c.Asked[o] = true
	}
}

// blamedKinds are kinds that are read when a finding of a code asks which of their objects is to
// blame.
var blamedKinds = map[string][]string{
	"PodsRefused":        {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
	"ChangedByAdmission": {"MutatingAdmissionPolicy"},
}

// readBlamed reads the kinds that findings ask for and that were not read.
func readBlamed(ctx context.Context, r *reader, c *finding.Cluster, found []finding.Finding) {
	for _, f := range found {
		readKinds(ctx, r, c, blamedKinds[f.Code])
	}
}

// readKinds reads kinds that were not read, as far as the user may.
func readKinds(ctx context.Context, r *reader, c *finding.Cluster, kinds []string) {
	for _, kind := range kinds {
		row, ok := rowOf(kind)
		if !ok || c.Read(kind) {
			continue
		}
		l, err := row.list(ctx, r.client, c.Namespace, metav1.ListOptions{ResourceVersion: "0"})
		if r.seen(kind, err) {
			c.Add(kind, stripped(extracted(l))...)
		}
	}
}

// readElsewhere looks for what is missing in other namespaces, by its name, and for what else the
// findings ask for. The first of about is the object asked about, the others are to be looked for.
func readElsewhere(ctx context.Context, r *reader, c *finding.Cluster, about ...finding.Object) {
	self := about[0]
	readKinds(ctx, r, c, c.UnreadKinds(self))
	readKinds(ctx, r, c, c.UnreadKinds(self)) // of what the first have named
	readUnknown(ctx, r, c, self)
	asked := map[finding.Object]bool{}
	found := finding.Of(c, self)
	readBlamed(ctx, r, c, found)
	missing := append(c.MissingServices(self), about[1:]...)
	for _, f := range found {
		if f.Code == "ReferenceMissing" && len(f.Related) > 0 {
			missing = append(missing, f.Related[0])
		}
	}
	for _, m := range missing {
		if m.Namespace == "" || asked[m] || len(asked) == 5 {
			continue
		}
		asked[m] = true
		row, ok := rowOf(m.Kind)
		if !ok {
			continue
		}
		l, err := row.list(ctx, r.client, "", metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(
			"metadata.name", m.Name).String()})
		if r.seen(row.kind, err) {
			for _, o := range stripped(extracted(l)) {
				if o.GetNamespace() != m.Namespace && o.GetName() == m.Name {
					c.Add(row.kind, o)
				}
			}
		}
	}
}
