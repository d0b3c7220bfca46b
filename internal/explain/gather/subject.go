package gather

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
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
	if !ok {
		return "", "",
			cli.UsageError(
				fmt.Errorf("why knows nothing of kind %q: ask about pod, deployment, replicaset, statefulset, "+
					"daemonset, job, cronjob, service, node or pvc", kind))

	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", cli.UsageError(fmt.Errorf("%q names no object: write %s/NAME", arg, known))
	}
	return known, name, nil
}

// Answer asks about a Pod or an object that makes Pods.
func Answer(ctx context.Context, e *cli.Inspector, arg string) (explain.Answer, time.Time, error) {
	now := time.Now()
	kind, name, err := parseSubject(arg)
	if err != nil {
		return explain.Answer{}, now, err
	}
	if kind == "pod" {
		in, unread, err := gatherInput(ctx, e, name)
		if err != nil {
			return explain.Answer{}, now, err
		}
		a := explain.Why(in)
		a.Unread = unread
		return a, in.Now, nil
	}
	client, err := e.NewClient()
	if err != nil {
		return explain.Answer{}, now, err
	}
	s := explain.Subject{Now: now, Kind: kind, Name: name, Namespace: e.Namespace}
	r := &reader{client: client}
	if err := readSubject(ctx, r, &s); err != nil {
		return explain.Answer{}, now, err
	}
	a := explain.WhyObject(s)
	a.Unread = r.unread
	return a, now, nil
}

// readSubject reads an object, what it made and what is around it.
func readSubject(ctx context.Context, r *reader, s *explain.Subject) error {
	var err error
	if s.Object, err = readObject(ctx, r, s); apierrors.IsNotFound(err) {
		where := ""
		if s.Kind != "node" {
			where = " in namespace " + s.Namespace
		}
		return cli.WithFix(fmt.Errorf("there is no %s %s%s", s.Kind, s.Name, where),
			"check kind, name and namespace (-n)")
	} else if err != nil {
		return err
	}
	s.ClusterContext, s.NamespaceContext = readClusterContext(ctx, r),
		readNamespaceContext(ctx, r, s.Namespace)
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
	if p := explain.WorstPod(s.Pods); p != nil && s.Kind != "node" && s.Kind != "pvc" {
		in := explain.In{Now: s.Now, Pod: p, Ref: journal.Ref{Namespace: p.Namespace, Name: p.Name}}
		if err := readJournalFacts(ctx, r, &in); err != nil {
			return err
		}
		if err := readPodObjects(ctx, r, &in); err != nil {
			return err
		}
		in.LastLogs = readLastLogs(ctx, r.client, p)
		s.WorstPod = &in
	}
	return nil
}

func readObject(ctx context.Context, r *reader, s *explain.Subject) (runtime.Object, error) {
	o := metav1.GetOptions{}
	switch s.Kind {
	case "deployment":
		return r.client.AppsV1().Deployments(s.Namespace).Get(ctx, s.Name, o)
	case "replicaset":
		return r.client.AppsV1().ReplicaSets(s.Namespace).Get(ctx, s.Name, o)
	case "statefulset":
		return r.client.AppsV1().StatefulSets(s.Namespace).Get(ctx, s.Name, o)
	case "daemonset":
		return r.client.AppsV1().DaemonSets(s.Namespace).Get(ctx, s.Name, o)
	case "job":
		return r.client.BatchV1().Jobs(s.Namespace).Get(ctx, s.Name, o)
	case "cronjob":
		return r.client.BatchV1().CronJobs(s.Namespace).Get(ctx, s.Name, o)
	case "service":
		return r.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, o)
	case "pvc":
		return r.client.CoreV1().PersistentVolumeClaims(s.Namespace).Get(ctx, s.Name, o)
	case "node":
		s.Namespace = ""
		return r.client.CoreV1().Nodes().Get(ctx, s.Name, o)
	}
	return nil, fmt.Errorf("kind %q cannot be read", s.Kind)
}

// readOwned finds what the object made, down to its Pods, and the events about them. What the asker
// may not see is left out.
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
		s.Events = slices.DeleteFunc(events.Items, func(x corev1.Event) bool { return !owners[x.InvolvedObject.UID] })
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
	case *corev1.PersistentVolumeClaim:
		return p.Namespace == o.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == o.Name
		})
	}
	return ownedBy(p, owners)
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
