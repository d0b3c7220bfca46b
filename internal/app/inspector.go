package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/internal/trace/otlp"
)

// inspector is what the subcommands that look at one Pod share.
type inspector struct {
	out        io.Writer
	kubeconfig string
	namespace  string
	output     string
}

func (e *inspector) flags(c *cobra.Command, outputs string) {
	c.Flags().StringVar(&e.kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	c.Flags().StringVarP(&e.namespace, "namespace", "n", "", "namespace of the Pod (default: the kubeconfig's)")
	c.Flags().StringVarP(&e.output, "output", "o", "", "form of the answer: "+outputs)
}

func (e *inspector) newClient() (kubernetes.Interface, error) {
	cfg, namespace, err := restConfig(e.kubeconfig)
	if err != nil {
		return nil, err
	}
	if e.namespace == "" {
		e.namespace = namespace
	}
	return kubernetes.NewForConfig(cfg)
}

func newTrace(io IO) *cobra.Command {
	e := &inspector{out: io.Out}
	all, revisions, endpoint := false, false, ""
	c := &cobra.Command{
		Use:   "trace pod/NAME | KIND/NAME --revisions | packet --from … --to … | apply -f FILE",
		Short: "Tell a Pod's life: every step from the write to its end, with times",
		Long: "trace prints what the journal holds about a Pod: writes, queue, filters and scores, binding, every " +
			"call to the runtime with its duration, probes, stop.\n" +
			"It works after the Pod is gone and after Gantry was restarted, as far as the journal's bound reaches.\n" +
			"With --revisions it tells who wrote what of any object at each revision. packet tells what would become " +
			"of a packet. Its other subcommands are kubectl's that\n" +
			"write; they tell how the server took each write.",
		Example: "  gantry trace pod/web\n  gantry trace pod/web -o tree\n  gantry trace pod/web -o json\n  gantry " +
			"trace pod/web --otlp 127.0.0.1:4317\n" +
			"  gantry trace pod/web --revisions\n  gantry trace deployment/web --revisions\n  gantry trace apply -f " +
			"pod.yaml --dry-run=server",
		Args: exactlyOne("a Pod: pod/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if revisions {
				return traceRevisions(c.Context(), e, args[0])
			}
			podTraces, err := podTraces(c.Context(), e, args[0])
			if err != nil {
				return err
			}
			if !all {
				podTraces = podTraces[len(podTraces)-1:]
			}
			for _, l := range podTraces {
				if endpoint != "" {
					if err := otlp.Send(c.Context(), endpoint, l); err != nil {
						return withFix(err, "check that a collector takes OTLP over gRPC at %s", endpoint)
					}
				}
				if err := writePodTrace(e, l); err != nil {
					return err
				}
			}
			return nil
		},
	}
	e.flags(c, "timeline (default), tree, json")
	c.Flags().BoolVar(&all, "all", false, "every Pod that had this name, not only the last")
	c.Flags().BoolVar(&revisions, "revisions", false,
		"who wrote what at each revision that is still known, of any kind")
	c.AddCommand(newPacket(io))
	c.AddCommand(tracedWrites(io)...)
	c.Flags().StringVar(&endpoint, "otlp", "",
		"also send the spans to this OpenTelemetry collector (host:port, OTLP over gRPC)")
	return c
}

func podTraces(ctx context.Context, e *inspector, arg string) ([]trace.PodTrace, error) {
	name, err := podName(arg)
	if err != nil {
		return nil, err
	}
	client, err := e.newClient()
	if err != nil {
		return nil, err
	}
	entries, err := readJournal(ctx, client, e.namespace, name)
	if errors.Is(err, errNoJournal) {
		return nil, withFix(err, "trace needs Gantry's journal; `gantry why` also works on any Kubernetes")
	}
	if err != nil {
		return nil, err
	}
	podTraces := trace.PodTraces(entries)
	if len(podTraces) == 0 {
		return nil, withFix(fmt.Errorf("the journal holds nothing about pod %s in namespace %s", name, e.namespace),
			"check name and namespace (-n); the journal keeps the newest entries only")
	}
	return podTraces, nil
}

func writePodTrace(e *inspector, l trace.PodTrace) error {
	switch e.output {
	case "", "timeline":
		return l.WriteTimeline(e.out)
	case "tree":
		return l.WriteTree(e.out)
	case "json":
		return writeJSON(e.out, l)
	}
	return usageError(fmt.Errorf("output %q: must be timeline, tree or json", e.output))
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newWhy(io IO) *cobra.Command {
	e := &inspector{out: io.Out}
	c := &cobra.Command{
		Use: "why KIND/NAME… | PHRASE",
		Short: "Say why a Pod is pending, restarting, not ready, terminating or gone, and what to do; of other " +
			"objects, what holds them up",
		Long: "why names the one thing a Pod waits for or was ended by, with numbers, since when, what happens next " +
			"by itself, and what a person can do.\n" +
			"Of a deployment, replicaset, statefulset, daemonset, job or cronjob it names the first blocker of its " +
			"Pods or of their making; it also knows service, node and pvc. Of a name that a container could not " +
			"resolve it says why.\n" +
			"A phrase of kubectl describe, in quotes, is taken apart without a cluster: who said it, by which rule, " +
			"what to do.",
		Example: "  gantry why pod/web\n  gantry why deployment/web -n prod -o json\n  gantry why node/node-1\n  " +
			"gantry why '0/12 nodes are available: 12 Insufficient cpu'",
		Args: oneOrMore("an object or several: pod/NAME, deployment/NAME, …"),
		RunE: func(c *cobra.Command, args []string) error { return why(c.Context(), e, args) },
	}
	e.flags(c, "text (default), json")
	return c
}

// why answers about each object in turn; one that cannot be asked about does not keep the others
// back. As JSON, several answers are a stream of objects.
func why(ctx context.Context, e *inspector, args []string) error {
	if e.output != "" && e.output != "text" && e.output != "json" {
		return usageError(fmt.Errorf("output %q: must be text or json", e.output))
	}
	var errs []error
	for i, arg := range args {
		if i > 0 && e.output != "json" {
			if _, err := fmt.Fprintln(e.out); err != nil {
				return err
			}
		}
		if isKubectlMessage(arg) {
			errs = append(errs, explainMessage(e, arg))
			continue
		}
		a, now, err := answer(ctx, e, arg)
		switch {
		case err != nil:
		case e.output == "json":
			err = writeJSON(e.out, a)
		default:
			err = a.WriteText(e.out, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// gatherInput reads what an answer is made from. Without a journal (another Kubernetes) the Pod,
// its node and its events have to do.
func gatherInput(ctx context.Context, e *inspector, arg string) (explain.In, error) {
	in := explain.In{Now: time.Now()}
	name, err := podName(arg)
	if err != nil {
		return in, err
	}
	client, err := e.newClient()
	if err != nil {
		return in, err
	}
	in.Ref = journal.Ref{Namespace: e.namespace, Name: name}
	if in.Pod, err = findPod(ctx, client, e.namespace, name); err != nil {
		return in, err
	}
	if err := readJournalFacts(ctx, e, client, &in); err != nil {
		return in, err
	}
	if in.Pod == nil && len(in.Entries) == 0 {
		return in, withFix(fmt.Errorf("there is no pod %s in namespace %s, and the journal holds nothing about one",
			name, e.namespace), "check name and namespace (-n)")
	}
	in.LastLogs = readLastLogs(ctx, client, in.Pod)
	return in, readPodObjects(ctx, e, client, &in)
}

// readLastLogs reads what containers said before they failed, as far as the asker may read logs.
func readLastLogs(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) map[string]string {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	out, lines, most := map[string]string{}, int64(3), int64(2000)
	for name, previous := range explain.FailedContainers(p) {
		raw, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name,
			&corev1.PodLogOptions{Container: name, Previous: previous, TailLines: &lines, LimitBytes: &most}).DoRaw(ctx)
		if err == nil {
			out[name] = string(raw)
		}
	}
	return out
}

// readJournalFacts reads the journal of a Pod's life. Roles of their own send their facts in
// batches: those of a Pod that was just placed are waited for, two seconds at most.
func readJournalFacts(ctx context.Context, e *inspector, client kubernetes.Interface, in *explain.In) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		entries, err := readJournal(ctx, client, in.Ref.Namespace, in.Ref.Name)
		if errors.Is(err, errNoJournal) || apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range trace.PodTraces(entries) {
			if in.Pod == nil || l.Ref.UID == string(in.Pod.UID) {
				in.Entries, in.Ref.UID = l.Entries, l.Ref.UID
			}
		}
		if time.Now().After(deadline) || !justScheduled(in) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// justScheduled tells of a Pod that a scheduler placed, or took away for another one, within the
// last seconds, and whose ruling is not in the journal yet.
func justScheduled(in *explain.In) bool {
	var ruled, preempted bool
	var taken time.Time // when the scheduler deleted it
	for _, e := range in.Entries {
		switch f := e.Fact.(type) {
		case journal.Ruled:
			ruled = true
		case journal.Preempted:
			preempted = true
		case journal.Deleting:
			if f.User == user.KubeScheduler {
				taken = e.At
			}
		}
	}
	if !taken.IsZero() {
		return !preempted && in.Now.Sub(taken) < 5*time.Second
	}
	if ruled || in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return false
	}
	for _, c := range in.Pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return in.Now.Sub(c.LastTransitionTime.Time) < 5*time.Second
		}
	}
	return false
}

// readPodObjects reads node and events of a Pod that is there.
func readPodObjects(ctx context.Context, e *inspector, client kubernetes.Interface, in *explain.In) error {
	if in.Pod == nil {
		if explain.NeedsNamespaceContext(*in) {
			in.ClusterContext = readClusterContext(ctx, client)
		}
		return nil
	}
	in.ClusterContext, in.NamespaceContext = readClusterContext(ctx, client),
		readNamespaceContext(ctx, client, in.Ref.Namespace)
	readPodGroups(ctx, client, in)
	if node := in.Pod.Spec.NodeName; node != "" {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			in.Node = n
			if explain.NeedsLocalImages(in.Pod) {
				in.Images = localImages(ctx, client, n)
			}
		} else if apierrors.IsForbidden(err) {
			in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}} // there, as far as this asker may know
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	about := fields.SelectorFromSet(fields.Set{"involvedObject.name": in.Pod.Name,
		"involvedObject.uid": string(in.Pod.UID)}).String()
	events, err := client.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: about})
	if err == nil {
		in.Events = events.Items
	}
	return nil
}

// pluginHandle is as much of a scheduler's handle as plugins need that only judge: what is known of
// volumes and namespaces.
type pluginHandle struct {
	framework.Handle
	facts     volumelisters.Listers
	informers informers.SharedInformerFactory // never started: its store holds what was read once
	devices   *dynamicresources.FixedManager
}

// DeviceAllocation implements plugins.DeviceHolder; nothing is allocated here.
func (v pluginHandle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return v.devices, nil
}

// VolumeListers implements volumelisters.ListersHolder.
func (v pluginHandle) VolumeListers() volumelisters.Listers { return v.facts }

// SharedInformerFactory implements framework.Handle.
func (v pluginHandle) SharedInformerFactory() informers.SharedInformerFactory { return v.informers }

func newPluginHandle(ctx context.Context, client kubernetes.Interface, all metav1.ListOptions) pluginHandle {
	v := pluginHandle{facts: readStorageFacts(ctx, client, all), informers: informers.NewSharedInformerFactory(client,
		0), devices: readDevices(ctx, client, all)}
	if l, err := client.CoreV1().Namespaces().List(ctx, all); err == nil {
		store := v.informers.Core().V1().Namespaces().Informer().GetStore()
		for i := range l.Items {
			_ = store.Add(&l.Items[i]) // a store in memory that keys by name
		}
	}
	return v
}

// readStorageFacts reads claims, volumes and what belongs to them; what the asker may not list is
// taken as absent.
func readStorageFacts(ctx context.Context, client kubernetes.Interface, all metav1.ListOptions) volumelisters.Listers {
	var objects []runtime.Object
	if l, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.CoreV1().PersistentVolumes().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.StorageV1().StorageClasses().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.StorageV1().CSINodes().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.StorageV1().CSIDrivers().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.StorageV1().CSIStorageCapacities("").List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	if l, err := client.StorageV1().VolumeAttachments().List(ctx, all); err == nil {
		objects = appendAll(objects, l.Items)
	}
	return volumelisters.Of(objects...)
}

func appendAll[T any, P interface {
	*T
	runtime.Object
}](out []runtime.Object, items []T) []runtime.Object {
	for i := range items {
		out = append(out, P(&items[i]))
	}
	return out
}

// exactlyOne is cobra.ExactArgs with a message that says what is missing.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usageError(fmt.Errorf("%s wants %s; see %q", c.CommandPath(), what, c.CommandPath()+" --help"))
	}
}
