package source

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/journal/remote"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
)

// Bounds of what is read from the journal, so that a copy of a large cluster stays quick.
const (
	journalsPerOwner = 5  // of Pods that are there, and as many of Pods that are gone
	mostJournals     = 60 // in all
	journalsAtOnce   = 8
	longestJournals  = time.Second
)

// podName is a Pod, also one that is gone, and its behavior.OwnerKey.
type podName struct{ owner, namespace, name string }

// timesOf learns from the journal of a Gantry cluster how long containers take. Of another cluster,
// and where the caller may not read the journal, nothing is learnt.
func timesOf(ctx context.Context, c kubernetes.Interface, objects []runtime.Object) map[string]behavior.Script {
	client, ok := c.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || client == nil || client.Get().AbsPath(journalPath).Do(ctx).Error() != nil {
		return nil
	}
	names := append(newest(objects), gone(ctx, c, objects)...)
	ctx, cancel := context.WithTimeout(ctx, longestJournals)
	defer cancel()
	var mu sync.Mutex
	var lives []behavior.Life
	var reads errgroup.Group
	reads.SetLimit(journalsAtOnce)
	for _, p := range names[:min(len(names), mostJournals)] {
		reads.Go(func() error {
			found, err := livesOf(ctx, c, p)
			mu.Lock()
			defer mu.Unlock()
			lives = append(lives, found...)
			return err
		})
	}
	_ = reads.Wait() // what could not be read tells nothing
	return behavior.LearnLives(lives)
}

const journalPath = "/apis/journal.gantry.dev/v1alpha1"

// livesOf reads the lives of the Pods that have or had a name.
func livesOf(ctx context.Context, c kubernetes.Interface, p podName) ([]behavior.Life, error) {
	entries, err := remote.Read(ctx, c, p.namespace, p.name)
	if err != nil {
		return nil, err
	}
	var out []behavior.Life
	at := map[string]int{}
	for _, e := range entries {
		i, known := at[e.Ref.UID]
		if !known {
			i = len(out)
			at[e.Ref.UID] = i
			out = append(out, behavior.Life{Owner: p.owner})
		}
		out[i].Entries = append(out[i].Entries, e)
	}
	return out, nil
}

// newest are the newest Pods of each owner.
func newest(objects []runtime.Object) []podName {
	var pods []*corev1.Pod
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && behavior.OwnerKey(p) != "" {
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return b.CreationTimestamp.Time.Compare(a.CreationTimestamp.Time)
	})
	var out []podName
	taken := map[string]int{}
	for _, p := range pods {
		if owner := behavior.OwnerKey(p); taken[owner] < journalsPerOwner {
			taken[owner]++
			out = append(out, podName{owner, p.Namespace, p.Name})
		}
	}
	return out
}

// gone are Pods of the copied workloads that were stopped lately, by the kubelets' events: their
// journals tell how long Pods take to stop.
func gone(ctx context.Context, c kubernetes.Interface, objects []runtime.Object) []podName {
	events, err := c.CoreV1().Events(all).List(ctx, metav1.ListOptions{ResourceVersion: "0",
		FieldSelector: fields.Set{"reason": "Killing", "involvedObject.kind": "Pod"}.String()})
	if err != nil {
		return nil
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int {
		return b.LastTimestamp.Time.Compare(a.LastTimestamp.Time)
	})
	there := map[string]bool{}
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok {
			there[p.Namespace+"/"+p.Name] = true
		}
	}
	makers := makersOf(objects)
	var out []podName
	taken := map[string]int{}
	for _, e := range events.Items {
		key := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		owner := ownerByName(makers, key)
		if owner == "" || there[key] || taken[owner] == journalsPerOwner {
			continue
		}
		there[key] = true
		taken[owner]++
		out = append(out, podName{owner, e.InvolvedObject.Namespace, e.InvolvedObject.Name})
	}
	return out
}

// maker is what makes Pods whose names begin with its own (NAMESPACE/NAME), and their OwnerKey.
type maker struct{ name, owner string }

// makersOf are the makers, those of the longest names first.
func makersOf(objects []runtime.Object) []maker {
	var out []maker
	add := func(m metav1.Object, kind string) {
		owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Labels: m.GetLabels(),
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: m.GetName(), Controller: new(true)}}}}
		out = append(out, maker{m.GetNamespace() + "/" + m.GetName(), behavior.OwnerKey(owned)})
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.ReplicaSet:
			add(o, "ReplicaSet")
		case *appsv1.StatefulSet:
			add(o, "StatefulSet")
		case *appsv1.DaemonSet:
			add(o, "DaemonSet")
		case *batchv1.Job:
			add(o, "Job")
		case *corev1.ReplicationController:
			add(o, "ReplicationController")
		}
	}
	slices.SortStableFunc(out, func(a, b maker) int { return cmp.Compare(len(b.name), len(a.name)) })
	return out
}

// ownerByName is the OwnerKey of the Pods of a name; empty: no maker makes such names.
func ownerByName(makers []maker, pod string) string {
	for _, m := range makers {
		if rest, ok := strings.CutPrefix(pod, m.name+"-"); ok && !strings.Contains(rest, "-") {
			return m.owner
		}
	}
	return ""
}
