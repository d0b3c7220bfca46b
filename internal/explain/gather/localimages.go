package gather

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/linux/proc"
)

// localImagesTimeout bounds the calls to the kubelet and the runtime.
const localImagesTimeout = 5 * time.Second

// localImages are the names of all images that the runtime of a node has, when the node is this
// machine and its socket may be opened; else nil. A node's status lists some of them only
// (nodeStatusMaxImages), and late.
func localImages(ctx context.Context, client kubernetes.Interface, n *corev1.Node) []string {
	if boot := proc.BootID(); boot == "" || n.Status.NodeInfo.BootID != boot {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, localImagesTimeout)
	defer cancel()
	raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.Name).SubResource("proxy").Suffix(
		"configz").DoRaw(ctx)
	if err != nil {
		return nil
	}
	var c struct {
		Config *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Config == nil || c.Config.ContainerRuntimeEndpoint == "" {
		return nil
	}
	k, err := cri.Dial(ctx, cri.Options{Endpoint: c.Config.ContainerRuntimeEndpoint,
		ImageEndpoint: c.Config.ImageServiceEndpoint, Timeout: localImagesTimeout, FailFast: true})
	if err != nil {
		return nil
	}
	defer k.Close()
	list, err := k.Images().ListImages(ctx, nil)
	if err != nil {
		return nil
	}
	out := []string{}
	for _, i := range list {
		out = append(append(out, i.RepoTags...), i.RepoDigests...)
	}
	return out
}
