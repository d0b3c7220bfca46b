package gather

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/server"
)

// gatherInput reads what an answer is made from. Without a journal (another Kubernetes) the Pod,
// its node and its events have to do. What could not be read is noted in r.
func gatherInput(ctx context.Context, r *reader, q Question, arg string) (in explain.In, err error) {
	in.Now = q.Now
	name, err := cli.PodName(arg)
	if err != nil {
		return in, err
	}
	client, namespace := r.client, q.Namespace
	in.Ref = journal.Ref{Namespace: namespace, Name: name}
	if in.Pod, err = FindPod(ctx, client, namespace, name); err != nil {
		return in, err
	}
	if err := readJournalFacts(ctx, r, &in); err != nil {
		return in, err
	}
	if in.Pod == nil && in.NoJournal {
		readGoneEvents(ctx, r, &in)
	}
	if in.Pod == nil && len(in.Entries) == 0 {
		memory := "the journal holds nothing about one"
		if in.NoJournal {
			memory = "nothing is left that says who removed one"
		}
		return in, noObject{finding.Object{Kind: "Pod", Namespace: namespace, Name: name}, memory}
	}
	in.LastLogs = readLastLogs(ctx, client, in.Pod)
	if err = readPodObjects(ctx, r, &in); err == nil && in.Pod != nil {
		self := finding.Object{Kind: "Pod", Namespace: namespace, Name: name}
		in.Objects = readObjects(ctx, r, in.ClusterContext, objectsAsk{now: in.Now, namespace: namespace,
			demand: demandOf(&in.Pod.Spec)})
		readElsewhere(ctx, r, in.Objects, append([]finding.Object{self}, explain.UnresolvedServices(in)...)...)
		in.Drivers = readDrivers(ctx, r, in)
		in.Kills = readKills(ctx, r, in.Pod)
		if in.ClusterContext != nil && explain.NeedsProcessLimit(in) {
			in.ClusterContext.ProcessLimit = processLimit(ctx, r.client, in.Pod.Spec.NodeName)
		}
	}
	return in, err
}

// readLastLogs reads what containers said before they failed, as far as the caller may read logs.
func readLastLogs(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) map[string]string {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	out, lines, most := map[string]string{}, int64(3), int64(2000)
	for name, previous := range explain.ContainersToRead(p) {
		raw, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name,
			&corev1.PodLogOptions{Container: name, Previous: previous, TailLines: &lines, LimitBytes: &most}).DoRaw(ctx)
		if err == nil {
			out[name] = string(raw)
		}
	}
	return out
}

// readGoneEvents takes the events of the newest Pod that had a name for its journal, where they
// tell who removed it.
func readGoneEvents(ctx context.Context, r *reader, in *explain.In) {
	l, err := r.client.CoreV1().Events(in.Ref.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": in.Ref.Name}.String()})
	if !r.seen("events", err) {
		return
	}
	in.Events = explain.EventsOfNewest(l.Items)
	in.ClusterContext = readClusterContext(ctx, r, everything)
	if facts := explain.FactsOfEvents(*in); explain.RecordsRemoval(facts) {
		in.Entries = facts
	}
}

// readPodObjects reads node and events of a Pod that is there, and what is around it where that is
// not known yet.
func readPodObjects(ctx context.Context, r *reader, in *explain.In) error {
	if in.Pod == nil {
		if explain.NeedsNamespaceContext(*in) {
			in.ClusterContext = readClusterContext(ctx, r, everything)
		}
		return nil
	}
	if in.ClusterContext == nil {
		in.ClusterContext = readClusterContext(ctx, r, demandOf(&in.Pod.Spec))
	}
	if in.NamespaceContext == nil {
		in.NamespaceContext = readNamespaceContext(ctx, r, in.Ref.Namespace)
	}
	readPodGroups(ctx, r, in)
	if node := in.Pod.Spec.NodeName; node != "" {
		n, err := r.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			in.Node = n
			if explain.NeedsLocalImages(in.Pod) {
				in.Images = localImages(ctx, r.client, n)
			}
		} else if apierrors.IsForbidden(err) {
			in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}} // there, as far as this caller may know
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	about := fields.SelectorFromSet(fields.Set{"involvedObject.name": in.Pod.Name,
		"involvedObject.uid": string(in.Pod.UID)}).String()
	events, err := r.client.CoreV1().Events(in.Ref.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about})
	if r.seen("events", err) {
		in.Events = slices.DeleteFunc(events.Items, func(x corev1.Event) bool {
			return !x.LastTimestamp.IsZero() && x.LastTimestamp.Time.Before(r.after)
		})
	}
	if in.NoJournal {
		in.Entries = explain.FactsOfEvents(*in)
	}
	in.PacketState = podPackets(ctx, r, in.Pod)
	return nil
}

// readKills asks the kubelet's metrics, which every kubelet serves, for processes that the kernel
// killed in containers that run; nil where none can have been killed, and when it does not tell.
func readKills(ctx context.Context, r *reader, p *corev1.Pod) map[string]uint64 {
	if !explain.MayLoseProcesses(p) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	kubelet := r.client.CoreV1().RESTClient().Get().Resource("nodes").Name(p.Spec.NodeName).SubResource("proxy")
	raw, err := kubelet.Suffix("metrics", "cadvisor").DoRaw(ctx)
	if err != nil {
		return nil
	}
	return explain.KillsOf(string(raw), p.Namespace, p.Name)
}

// readDrivers asks the kubelet of a Pod that uses CSI drivers and has not started, or goes, for
// their calls; nil when it does not tell.
func readDrivers(ctx context.Context, r *reader, in explain.In) *explain.Drivers {
	p := in.Pod
	if p.Spec.NodeName == "" || len(explain.DriversOf(p, in.Objects)) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	ask := r.client.CoreV1().RESTClient().Get().Resource("nodes").Name(p.Spec.NodeName).SubResource("proxy")
	raw, err := ask.Suffix("drivercalls").SetHeader("Accept", "application/json").DoRaw(ctx)
	var found server.DriverCalls
	if err != nil || json.Unmarshal(raw, &found) != nil {
		return nil
	}
	out := &explain.Drivers{Registered: found.Registered}
	for _, c := range found.Calls {
		out.Calls = append(out.Calls, explain.DriverCall(c))
	}
	return out
}
