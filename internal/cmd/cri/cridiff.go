package cri

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crictl"
	"github.com/gantry-project/gantry/internal/linux/proc"
)

func newCRIDiff(r *criCommand) *cobra.Command {
	e := &cli.Inspector{Out: r.io.Out}
	c := &cobra.Command{
		Use: "diff", Short: "List Pods that API server, kubelet and runtime do not all know", Args: cobra.NoArgs,
		Long: "diff asks the API server, the kubelet (through the API server) and this machine's runtime which Pods " +
			"they have, and lists those that one of them does not\n" +
			"know: a sandbox whose Pod was deleted by force, a Pod that the API says runs and the runtime has lost. " +
			"The exit code is 1 when there are any.",
		Example: "  sudo gantry cri diff\n  sudo gantry cri diff --kubeconfig admin.conf --node-name worker-1",
		RunE: func(c *cobra.Command, _ []string) error {
			boot := ""
			if !c.Flags().Changed("node-name") {
				machine, err := proc.Read("/")
				if err != nil {
					return err
				}
				boot = machine.BootID
			}
			return r.withRuntime(c.Context(), func(k *cri.Client) error { return r.diff(c.Context(), e, k, boot) })
		},
	}
	c.Flags().StringVar(&e.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	c.Flags().StringVar(&r.instance.NodeName, "node-name", "",
		"name of this node (default: the host's name, or that of the Node this machine is)")
	return c
}

func (r *criCommand) diff(ctx context.Context, e *cli.Inspector, k *cri.Client, boot string) error {
	if path := cli.KubeconfigIn(r.instance.DataDir); e.Kubeconfig == "" && cli.Readable(path) {
		e.Kubeconfig = path
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	if r.instance.NodeName, err = findLocalNode(ctx, client, r.instance.NodeName, boot); err != nil {
		return err
	}
	server, err := apiSide(ctx, client, r.instance.NodeName)
	if err != nil {
		return err
	}
	boxes, err := k.Runtime().ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	sides := []crictl.Source{server, kubeletSide(ctx, client, r.instance.NodeName), runtimeSide(boxes)}
	for _, s := range sides {
		if s.Error != "" {
			fmt.Fprintf(r.io.Err, "%s could not be asked: %s\n", s.Name, s.Error)
		}
	}
	list := crictl.Compare(sides)
	if len(list) == 0 {
		_, err := fmt.Fprintf(r.io.Out, "The API server, the kubelet and the runtime know the same Pods of node %s.\n",
			r.instance.NodeName)
		return err
	}
	if err := crictl.WriteDifferences(r.io.Out, sides, list); err != nil {
		return err
	}
	return fmt.Errorf("API server, kubelet and runtime do not know the same Pods of node %s: %d differ",
		r.instance.NodeName, len(list))
}

// findLocalNode is the Node that the name says, or, where there is none and boot is not empty, the
// only one whose kubelet runs on the machine of that boot.
func findLocalNode(ctx context.Context, client kubernetes.Interface, name, boot string) (string, error) {
	_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return name, err
	}
	all, listErr := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if listErr != nil {
		return "", listErr
	}
	var here []string
	for i := range all.Items {
		if n := &all.Items[i]; boot != "" && n.Status.NodeInfo.BootID == boot {
			here = append(here, n.Name)
		}
	}
	switch len(here) {
	case 0:
		return "", cli.WithFix(err, "name this machine's node with --node-name; kubectl get nodes lists them")
	case 1:
		return here[0], nil
	}
	return "", cli.WithFix(err, "this machine has several nodes: give one with --node-name, of %s",
		strings.Join(here, ", "))
}

// podSeen is a Pod as the API and the kubelet show it. The runtime knows a static Pod by the hash
// of its file, which its mirror tells.
func podSeen(p *corev1.Pod) crictl.PodRecord {
	uid := string(p.UID)
	if hash := p.Annotations[corev1.MirrorPodAnnotationKey]; hash != "" {
		uid = hash
	}
	state := string(p.Status.Phase)
	if p.DeletionTimestamp != nil {
		state += ", ending"
	}
	return crictl.PodRecord{UID: uid, Namespace: p.Namespace, Name: p.Name, State: state,
		Needed: p.Status.Phase == corev1.PodRunning}
}

func apiSide(ctx context.Context, client kubernetes.Interface, node string) (crictl.Source, error) {
	s := crictl.Source{Name: "API"}
	list, err := client.CoreV1().Pods("").List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return s, err
	}
	for i := range list.Items {
		s.Pods = append(s.Pods, podSeen(&list.Items[i]))
	}
	return s, nil
}

func kubeletSide(ctx context.Context, client kubernetes.Interface, node string) crictl.Source {
	s := crictl.Source{Name: "KUBELET"}
	raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(
		"pods").DoRaw(ctx)
	if err != nil {
		s.Error = fmt.Sprintf("%v (--node-name says which node this is)", err)
		return s
	}
	list := &corev1.PodList{}
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), raw, list); err != nil {
		s.Error = err.Error()
		return s
	}
	for i := range list.Items {
		s.Pods = append(s.Pods, podSeen(&list.Items[i]))
	}
	return s
}

func runtimeSide(boxes []*runtimeapi.PodSandbox) crictl.Source {
	s := crictl.Source{Name: "RUNTIME"}
	for _, b := range boxes {
		m, ready := b.GetMetadata(), b.State == runtimeapi.PodSandboxState_SANDBOX_READY
		state := "NotReady"
		if ready {
			state = "Ready"
		}
		s.Pods = append(s.Pods, crictl.PodRecord{UID: m.GetUid(), Namespace: m.GetNamespace(), Name: m.GetName(),
			State: state, Needed: ready})
	}
	return s
}
