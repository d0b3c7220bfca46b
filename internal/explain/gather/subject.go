package gather

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// kindAliases are the kinds that why knows, by every name people give them.
func kindAliases() map[string]string {
	return map[string]string{
		"pod": "pod", "pods": "pod", "po": "pod",
		"deployment": "deployment", "deployments": "deployment", "deploy": "deployment",
		"deployment.apps": "deployment",
		"replicaset":      "replicaset", "replicasets": "replicaset", "rs": "replicaset",
		"statefulset": "statefulset", "statefulsets": "statefulset", "sts": "statefulset",
		"daemonset": "daemonset", "daemonsets": "daemonset", "ds": "daemonset",
		"job": "job", "jobs": "job", "cronjob": "cronjob", "cronjobs": "cronjob", "cj": "cronjob",
		"service": "service", "services": "service", "svc": "service", "node": "node", "nodes": "node", "no": "node",
		"persistentvolumeclaim": "pvc", "persistentvolumeclaims": "pvc", "pvc": "pvc",
	}
}

// parseSubject takes KIND/NAME apart; a name alone is a Pod's.
func parseSubject(arg string) (kind, name string, err error) {
	kind, name, slash := strings.Cut(arg, "/")
	if !slash {
		return "pod", arg, nil
	}
	known, ok := kindAliases()[strings.ToLower(kind)]
	if row, general := rowOf(kind); !ok && general {
		known, ok = strings.ToLower(row.kind), true
	}
	if !ok {
		return "", "", cli.UsageError(fmt.Errorf("why knows nothing of kind %q%s: ask about %s", kind, nearKind(kind),
			kindsText()))
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", cli.UsageError(fmt.Errorf("%q names no object: write %s/NAME", arg, known))
	}
	return known, name, nil
}

// Answer asks about a Pod or another object. Facts and events older than since are left out; 0: all
// are looked at.
func Answer(ctx context.Context, e *cli.Inspector, arg string, since time.Duration) (explain.Answer, time.Time,
	error) {
	client, err := e.NewClient()
	if err != nil {
		if _, _, wrong := parseSubject(arg); wrong != nil {
			err = wrong
		}
		return explain.Answer{}, time.Now(), err
	}
	now := time.Now()
	a, err := AnswerWith(ctx, client, Question{Namespace: e.Namespace, About: arg, Now: now, Since: since})
	return a, now, err
}

// Question is what is asked of a cluster.
type Question struct {
	Namespace string
	About     string        // KIND/NAME, or a Pod's name
	Now       time.Time     // what counts as now
	Since     time.Duration // how far back facts and events are looked at; 0: as far as there are any
}

// after is the time before which nothing is looked at; zero: no bound.
func (q Question) after() time.Time {
	if q.Since == 0 {
		return time.Time{}
	}
	return q.Now.Add(-q.Since)
}

// longestChain is how many objects are followed from the one asked about to the root.
const longestChain = 2

// AnswerWith is Answer over a client. It follows what the answer leads to.
func AnswerWith(ctx context.Context, client kubernetes.Interface, q Question) (explain.Answer, error) {
	a, err := answerAlone(ctx, client, q)
	asked := []string{strings.ToLower(a.Subject)}
	for at := a; err == nil && len(asked) <= longestChain; {
		to, ok := at.LeadsTo()
		if !ok || slices.Contains(asked, subjectOf(to)) {
			break
		}
		asked = append(asked, subjectOf(to))
		next := q
		next.About, next.Namespace = strings.ToLower(to.Kind)+"/"+to.Name, cmp.Or(to.Namespace, q.Namespace)
		root, failed := answerAlone(ctx, client, next)
		if failed != nil {
			break // the answer says what to ask
		}
		a, at = a.Joined(root), root
	}
	return a, err
}

// subjectOf is how answers about an object name it.
func subjectOf(o finding.Object) string {
	s := strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		s += " in " + o.Namespace
	}
	return s
}

// answerAlone answers about one object.
func answerAlone(ctx context.Context, client kubernetes.Interface, q Question) (explain.Answer, error) {
	kind, name, err := parseSubject(q.About)
	r := &reader{client: client, after: q.after()}
	if err != nil {
		row, ok := kindRow{}, false
		if k, n, slash := strings.Cut(q.About, "/"); slash && n != "" {
			row, ok = discoveredRow(client, k)
			kind, name, r.row = strings.ToLower(row.kind), n, &row
		}
		if !ok {
			return explain.Answer{}, err
		}
	}
	if kind == "pod" {
		in, err := gatherInput(ctx, r, q, name)
		if err != nil {
			if a, ok := goneAnswer(ctx, client, q, finding.Object{Kind: kind, Name: in.Ref.Name}); ok && in.Pod == nil {
				return a, nil
			}
			return absentAnswer(ctx, r, q, err)
		}
		a := explain.Why(in)
		a.Unread = r.unread
		return a, nil
	}
	s := explain.Subject{Now: q.Now, Kind: kind, Name: name, Namespace: q.Namespace}
	if err := readSubject(ctx, r, &s); err != nil {
		if a, ok := goneAnswer(ctx, client, q, finding.Object{Kind: kind, Name: name}); ok && s.Object == nil {
			return a, nil
		}
		return absentAnswer(ctx, r, q, err)
	}
	a := explain.WhyObject(s)
	a.Unread = r.unread
	return a, nil
}

// readSubject reads an object, what it made and what is around it.
func readSubject(ctx context.Context, r *reader, s *explain.Subject) error {
	row, ok := rowOf(s.Kind)
	if s.Kind == "pvc" {
		row, ok = rowOf("persistentvolumeclaim")
	}
	if r.row != nil {
		row, ok = *r.row, true
	}
	if !ok {
		return fmt.Errorf("kind %q cannot be read", s.Kind)
	}
	namespace := s.Namespace
	within := row.scope == namespaced || row.scope == inside
	if !within {
		s.Namespace = ""
	}
	if row.kind == "Namespace" {
		namespace = s.Name
	} else if !within {
		namespace = ""
	}
	var err error
	if s.Object, err = readObject(ctx, r, row, s); err != nil {
		return err
	}
	d := demandOfObject(s.Object)
	s.ClusterContext = readClusterContext(ctx, r, d)
	s.Objects = readObjects(ctx, r, s.ClusterContext, objectsAsk{now: s.Now, namespace: namespace, kind: row.kind,
		row: r.row, demand: d, all: row.kind == "Namespace"})
	readElsewhere(ctx, r, s.Objects, finding.Object{Kind: row.kind, Namespace: s.Namespace, Name: s.Name})
	s.NamespaceContext = readNamespaceContext(ctx, r, s.Namespace)
	readOwned(ctx, r, s)
	if s.Kind == "pvc" {
		list, err := r.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
		if r.seen("storageclasses", err) {
			s.Classes = pointers(list.Items)
		}
	}
	if x, ok := s.Object.(*corev1.Service); ok {
		s.PacketState = servicePackets(ctx, r, x)
	}
	if p := explain.WorstPod(s.Pods, s.Now); p != nil && s.AboutItsPods() {
		if s.WorstPod, err = readOnePod(ctx, r, s, p); err != nil {
			return err
		}
	}
	if len(s.Pods) == 0 && s.Objects != nil {
		meant := s.Objects.MeantPods(finding.Object{Kind: row.kind, Namespace: s.Namespace, Name: s.Name})
		if p := explain.WorstPod(meant, s.Now); p != nil {
			in, err := readOnePod(ctx, r, s, p)
			if err != nil {
				return err
			}
			s.NamespaceContext.Inside = []explain.PodAnswer{{Answer: explain.Why(*in), Owner: s.Objects.PodOwner(p)}}
		}
	}
	if row.kind == "Namespace" {
		if s.NamespaceContext.Inside, _, err = podAnswers(ctx, r, s.ClusterContext, podsAsk{now: s.Now,
			namespace: s.Name, objects: s.Objects}); err != nil {
			return err
		}
	}
	return readGonePod(ctx, r, s)
}

// readOnePod reads what an answer about one Pod of an object is made from.
func readOnePod(ctx context.Context, r *reader, s *explain.Subject, p *corev1.Pod) (*explain.In, error) {
	in := explain.In{Now: s.Now, Pod: p, Ref: journal.Ref{Namespace: p.Namespace, Name: p.Name}}
	if err := readJournalFacts(ctx, r, &in); err != nil {
		return nil, err
	}
	if demandOfObject(s.Object).covers(demandOf(&p.Spec)) {
		in.ClusterContext = s.ClusterContext
	}
	if p.Namespace == s.Namespace {
		in.NamespaceContext = s.NamespaceContext
	}
	if err := readPodObjects(ctx, r, &in); err != nil {
		return nil, err
	}
	in.Objects = s.Objects
	in.LastLogs = readLastLogs(ctx, r.client, p)
	return &in, nil
}

// readGonePod reads the journal of the newest Pod of a Job that has none left: its events name it.
func readGonePod(ctx context.Context, r *reader, s *explain.Subject) error {
	if s.Kind != "job" || len(s.Pods) > 0 {
		return nil
	}
	name := ""
	var last time.Time
	for _, e := range s.Events {
		made, ok := strings.CutPrefix(e.Message, "Created pod: ")
		if ok && e.Reason == "SuccessfulCreate" && !e.LastTimestamp.Time.Before(last) {
			name, last = made, e.LastTimestamp.Time
		}
	}
	if name == "" {
		return nil
	}
	in := explain.In{Now: s.Now, Ref: journal.Ref{Namespace: s.Namespace, Name: name}}
	if err := readJournalFacts(ctx, r, &in); err != nil {
		return err
	}
	if len(in.Entries) > 0 {
		s.WorstPod = &in
	}
	return nil
}

// readObject reads the object asked about; one that is not there is the error noObject.
func readObject(ctx context.Context, r *reader, row kindRow, s *explain.Subject) (runtime.Object, error) {
	l, err := row.list(ctx, r.client, s.Namespace, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Name).String()})
	if err != nil {
		return nil, err
	}
	for _, o := range extracted(l) {
		if x, ok := o.(runtime.Object); ok && o.GetName() == s.Name {
			return x, nil
		}
	}
	return nil, noObject{object: finding.Object{Kind: row.kind, Namespace: s.Namespace, Name: s.Name}}
}

// readOwned finds what the object made, down to its Pods, and the events about them. What the
// caller may not see is left out.
func readOwned(ctx context.Context, r *reader, s *explain.Subject) {
	object, err := metav1Object(s.Object)
	if err != nil {
		return
	}
	owners := map[types.UID]bool{object.GetUID(): true}
	switch s.Kind {
	case "deployment":
		if list, err := r.client.AppsV1().ReplicaSets(s.Namespace).List(ctx, metav1.ListOptions{}); r.seen(
			"replicasets", err) {
			for i := range list.Items {
				if x := &list.Items[i]; ownedBy(x, owners) {
					s.Sets = append(s.Sets, x)
				}
			}
		}
		for _, x := range s.Sets {
			owners[x.UID] = true
		}
	case "cronjob":
		if list, err := r.client.BatchV1().Jobs(s.Namespace).List(ctx, metav1.ListOptions{}); r.seen("jobs", err) {
			for i := range list.Items {
				if x := &list.Items[i]; ownedBy(x, owners) {
					s.Jobs = append(s.Jobs, x)
				}
			}
		}
		for _, x := range s.Jobs {
			owners[x.UID] = true
		}
	}
	if events, err := r.client.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{}); r.seen("events", err) {
		s.Events = slices.DeleteFunc(events.Items, func(x corev1.Event) bool {
			return !owners[x.InvolvedObject.UID] || !x.LastTimestamp.IsZero() && x.LastTimestamp.Time.Before(r.after)
		})
	}
	if s.ClusterContext == nil {
		return
	}
	for _, p := range s.ClusterContext.Pods {
		if belongsTo(p, s, owners) {
			s.Pods = append(s.Pods, p)
		}
	}
}

// belongsTo tells whether a Pod is one the answer is about.
func belongsTo(p *corev1.Pod, s *explain.Subject, owners map[types.UID]bool) bool {
	switch o := s.Object.(type) {
	case *corev1.Node:
		return p.Spec.NodeName == o.Name
	case *corev1.Service:
		return p.Namespace == o.Namespace && len(o.Spec.Selector) > 0 && labels.SelectorFromSet(
			o.Spec.Selector).Matches(labels.Set(p.Labels))
	case *policyv1.PodDisruptionBudget:
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		return err == nil && p.Namespace == o.Namespace && selector.Matches(labels.Set(p.Labels))
	case *networkingv1.Ingress:
		return p.Namespace == o.Namespace && slices.ContainsFunc(finding.BackendsOf(o), func(name string) bool {
			backend := finding.Object{Kind: "Service", Namespace: o.Namespace, Name: name}
			x, ok := s.Objects.Get(backend).(*corev1.Service)
			return ok && len(x.Spec.Selector) > 0 &&
				labels.SelectorFromSet(x.Spec.Selector).Matches(labels.Set(p.Labels))
		})
	case *autoscalingv2.HorizontalPodAutoscaler:
		owner := s.Objects.PodOwner(p)
		return p.Namespace == o.Namespace && owner.Kind == o.Spec.ScaleTargetRef.Kind &&
			owner.Name == o.Spec.ScaleTargetRef.Name
	case *resourcev1.ResourceClaim:
		return p.Namespace == o.Namespace && usesClaim(p, o.Name)
	case *corev1.PersistentVolumeClaim:
		return p.Namespace == o.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == o.Name
		})
	}
	return ownedBy(p, owners)
}

// usesClaim tells whether a Pod has a ResourceClaim: named by it, or made for it.
func usesClaim(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.ResourceClaims, func(x corev1.PodResourceClaim) bool {
		return x.ResourceClaimName != nil && *x.ResourceClaimName == name
	}) || slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(x corev1.PodResourceClaimStatus) bool {
		return x.ResourceClaimName != nil && *x.ResourceClaimName == name
	})
}

func ownedBy(o metav1.Object, owners map[types.UID]bool) bool {
	r := metav1.GetControllerOf(o)
	return r != nil && owners[r.UID]
}

func metav1Object(o runtime.Object) (metav1.Object, error) {
	if m, ok := o.(metav1.Object); ok {
		return m, nil
	}
	return nil, fmt.Errorf("%T has no metadata", o)
}
