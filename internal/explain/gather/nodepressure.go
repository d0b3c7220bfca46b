package gather

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubelet "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

// unaskedTimeout bounds what why reads of a kubelet that nobody asked about.
const unaskedTimeout = 3 * time.Second

// mostPlaces is how many of those that would go are told of.
const mostPlaces = 5

// PressureQuestion is about a KIND/NAME.
type PressureQuestion struct {
	Subject string
	Asked   bool // whoever asks wants to know it, near or not
}

// AddNodePressure adds to an answer about a node or a running Pod how far the node is from
// evictions, and who would go. Unasked it is told where a threshold is near, and errors are not.
func AddNodePressure(ctx context.Context, e *cli.Inspector, q PressureQuestion, a *explain.Answer) error {
	asked := q.Asked
	kind, name, err := parseSubject(q.Subject)
	if err != nil || kind != "pod" && kind != "node" {
		return err
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	if !asked {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, unaskedTimeout)
		defer cancel()
	}
	ask := explain.PressureAsk{Kind: kind, Namespace: e.Namespace, Name: name, Asked: asked}
	if err = addNodePressure(ctx, client, ask, a); asked {
		return err
	}
	return nil
}

func addNodePressure(ctx context.Context, client kubernetes.Interface, ask explain.PressureAsk,
	a *explain.Answer) error {
	node := ask.Name
	if ask.Kind == "pod" {
		p, err := client.CoreV1().Pods(ask.Namespace).Get(ctx, ask.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			if ask.Asked {
				return cli.UsageError(fmt.Errorf("pod %s does not run: nothing of it can be evicted", ask.Name))
			}
			return nil
		}
		node = p.Spec.NodeName
	}
	n, err := NodePressure(ctx, client, node, ask.Kind == "node")
	if err != nil {
		return err
	}
	places := mostPlaces
	if ask.Asked {
		places = len(n.Pods)
	}
	explain.WithNodePressure(a, ask, nodepressure.Forecast(n, places))
	return nil
}

// NodePressure reads a node in numbers from its kubelet: what is in force (configz), what is left
// and what Pods take (stats/summary); disks, which take the kubelet time to measure, only on
// request. The ranking is upstream's: the kubelet does not tell it.
func NodePressure(ctx context.Context, client kubernetes.Interface, node string, disks bool) (nodepressure.Node,
	error) {
	out := nodepressure.Node{Name: node, Signals: map[eviction.Signal]nodepressure.Level{}}
	_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return out, err
	}
	k := kubeletClient{client, node, !disks}
	var configz struct {
		Config kubelet.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := k.get(ctx, &configz, "configz"); err != nil {
		return out, err
	}
	var summary statsapi.Summary
	if err := k.get(ctx, &summary, "stats", "summary"); err != nil {
		return out, err
	}
	capped := disks && k.capsDisks(ctx, &configz.Config)
	if out.Config, err = kubeconfig.EvictionConfig(&configz.Config, capped, ""); err != nil {
		return out, err
	}
	levels(&out, &summary, disks)
	out.Pods = podsInNumbers(list.Items, &summary)
	return out, nil
}

// kubeletClient asks a node's kubelet through the API server.
type kubeletClient struct {
	client kubernetes.Interface
	node   string
	brief  bool // the summary of CPU and memory alone
}

func (k kubeletClient) raw(ctx context.Context, path ...string) ([]byte, error) {
	c, ok := k.client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || c == nil {
		return nil, errors.New("this client cannot ask kubelets")
	}
	r := c.Get().Resource("nodes").Name(k.node).SubResource("proxy").Suffix(path...)
	if k.brief {
		r = r.Param("only_cpu_and_memory", "true")
	}
	raw, err := r.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("the kubelet of node %s: %w", k.node, err)
	}
	return raw, nil
}

func (k kubeletClient) get(ctx context.Context, into any, path ...string) error {
	raw, err := k.raw(ctx, path...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the kubelet of node %s: %s: %w", k.node, path[len(path)-1], err)
	}
	return nil
}

// capsDisks tells whether the node's default thresholds of disks are capped: configz shows them as
// upstream's, and its own metrics tell Gantry's kubelet.
func (k kubeletClient) capsDisks(ctx context.Context, c *kubelet.KubeletConfiguration) bool {
	defaults := &kubelet.KubeletConfiguration{}
	kubeconfig.Complete(defaults, kubeconfig.Gates{})
	if fmt.Sprint(c.EvictionHard) != fmt.Sprint(defaults.EvictionHard) {
		return false
	}
	raw, err := k.raw(ctx, "metrics")
	return err == nil && bytes.Contains(raw, []byte("gantry_eviction_signal_available"))
}

// levels reads the node's signals.
func levels(out *nodepressure.Node, s *statsapi.Summary, disks bool) {
	put := func(signal eviction.Signal, available, capacity *uint64) {
		if available != nil && capacity != nil {
			out.Signals[signal] = nodepressure.Level{Available: int64(*available), Capacity: int64(*capacity)}
		}
	}
	if m := s.Node.Memory; m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
		all := *m.AvailableBytes + *m.WorkingSetBytes // huge pages are of the capacity, and of neither
		put(eviction.MemoryAvailable, m.AvailableBytes, &all)
	}
	for _, c := range s.Node.SystemContainers {
		if m := c.Memory; c.Name == statsapi.SystemContainerPods && m != nil && m.AvailableBytes != nil &&
			m.WorkingSetBytes != nil {
			limit := *m.AvailableBytes + *m.WorkingSetBytes
			put(eviction.AllocatableMemoryAvailable, m.AvailableBytes, &limit)
		}
	}
	if r := s.Node.Rlimit; r != nil && r.MaxPID != nil && r.NumOfRunningProcesses != nil {
		most, left := uint64(*r.MaxPID), uint64(max(0, *r.MaxPID-*r.NumOfRunningProcesses))
		put(eviction.PIDAvailable, &left, &most)
	}
	if !disks {
		return
	}
	disk := func(bytes, inodes eviction.Signal, f *statsapi.FsStats) {
		if f != nil {
			put(bytes, f.AvailableBytes, f.CapacityBytes)
			put(inodes, f.InodesFree, f.Inodes)
		}
	}
	disk(eviction.NodeFsAvailable, eviction.NodeFsInodesFree, s.Node.Fs)
	if r := s.Node.Runtime; r != nil {
		disk(eviction.ImageFsAvailable, eviction.ImageFsInodesFree, r.ImageFs)
		disk(eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree, r.ContainerFs)
		out.Disks.DedicatedImageFs = differ(s.Node.Fs, r.ImageFs)
		out.Disks.SplitImageFs = differ(r.ImageFs, r.ContainerFs)
	}
}

// differ tells two file systems apart by their sizes: the summary does not name them.
func differ(a, b *statsapi.FsStats) bool {
	if a == nil || b == nil || a.CapacityBytes == nil || b.CapacityBytes == nil {
		return false
	}
	return *a.CapacityBytes != *b.CapacityBytes || a.Inodes != nil && b.Inodes != nil && *a.Inodes != *b.Inodes
}

// podsInNumbers joins Pods with what they take, the youngest first, as the kubelet has them.
func podsInNumbers(pods []corev1.Pod, s *statsapi.Summary) []nodepressure.Pod {
	use := map[string]*statsapi.PodStats{}
	for i := range s.Pods {
		use[s.Pods[i].PodRef.Namespace+"/"+s.Pods[i].PodRef.Name] = &s.Pods[i]
	}
	var out []nodepressure.Pod
	for i := range pods {
		p := &pods[i]
		if pod.IsTerminal(p) {
			continue
		}
		x := nodepressure.Pod{Pod: p}
		if u := use[p.Namespace+"/"+p.Name]; u != nil {
			x.Use = podUse(u)
		} else {
			x.Unmeasured = true
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b nodepressure.Pod) int {
		return cmp.Or(b.Pod.CreationTimestamp.Compare(a.Pod.CreationTimestamp.Time),
			cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return out
}

func podUse(s *statsapi.PodStats) eviction.PodUse {
	u := eviction.PodUse{Volumes: map[string]eviction.Space{}}
	if s.Memory != nil && s.Memory.WorkingSetBytes != nil {
		n := int64(*s.Memory.WorkingSetBytes)
		u.Memory = &n
	}
	if s.ProcessStats != nil && s.ProcessStats.ProcessCount != nil {
		u.Processes = *s.ProcessStats.ProcessCount
	}
	space := func(f *statsapi.FsStats) *eviction.Space {
		if f == nil || f.UsedBytes == nil {
			return nil
		}
		out := eviction.Space{Bytes: int64(*f.UsedBytes)}
		if f.InodesUsed != nil {
			out.Inodes = int64(*f.InodesUsed)
		}
		return &out
	}
	for _, c := range s.Containers {
		x := eviction.ContainerUse{Name: c.Name, Layer: space(c.Rootfs), Logs: space(c.Logs)}
		if c.Memory != nil && c.Memory.WorkingSetBytes != nil {
			n := int64(*c.Memory.WorkingSetBytes)
			x.Memory = &n
		}
		u.Containers = append(u.Containers, x)
	}
	for i := range s.VolumeStats {
		if v := space(&s.VolumeStats[i].FsStats); v != nil {
			u.Volumes[s.VolumeStats[i].Name] = *v
		}
	}
	return u
}
